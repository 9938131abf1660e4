"""What `hwmark dashboard` puts together: pages, JSON, and what a Prometheus asks for, behind one guard."""

from fastapi.testclient import TestClient

from pipelines.commands.dashboard import app
from pipelines.settings import load

TOKEN = "a token of enough letters"


def served(standing, **dashboard):
    settings = load(None, {"lake": {"path": standing[0]}, "dashboard": dashboard})
    return TestClient(app(settings), base_url="http://localhost:8080")


def test_a_prometheus_is_answered_beside_the_page(standing):
    client = served(standing)
    scraped = client.get("/metrics")
    assert scraped.status_code == 200
    assert "hwmark_build_info" in scraped.text
    assert client.get("/livez").status_code == 200
    assert client.get("/healthz").status_code in (200, 503)
    assert client.get("/").status_code == 200


def test_metrics_and_health_need_the_token_where_the_page_does(standing, monkeypatch):
    monkeypatch.setenv("HWMARK_DASHBOARD__TOKEN", TOKEN)
    client = served(standing, host="0.0.0.0")
    assert [client.get(path).status_code for path in ("/", "/metrics", "/healthz")] == [401, 401, 401]
    assert client.get("/livez").status_code == 200
    assert client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
