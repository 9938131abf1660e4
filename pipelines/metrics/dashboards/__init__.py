"""The Grafana dashboards in conf/grafana, made by code: `python -m pipelines.metrics.dashboards` writes them anew."""
