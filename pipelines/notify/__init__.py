"""Alerts to Alertmanagers and other channels: what is due, how it is worded, how it is sent, and what was sent."""
