"""The reason why a broker does not answer, in one line that says where to look."""

from __future__ import annotations

import re

import kafka.errors as kafka

from generators.cluster.asking.security import OAUTH, NoToken, Security


class NotAnswering(ValueError):
    """A broker, or the whole cluster, cannot be asked; the message says why."""


_NO_KAFKA = re.compile(r"Invalid frame length: (-?\d+)|Unable to decode|Correlation IDs")
_TLS_ALERT = 0x15


REFUSED, TIMED_OUT, CLOSED = "refused", "timed out", "closed"


def kind(error: BaseException) -> str:
    """The error in a word or two: the detail of a `no_answer` row."""
    text = " ".join(str(error).split())
    if isinstance(error, kafka.SaslAuthenticationFailedError | kafka.AuthorizationError | NoToken):
        return "not authenticated"
    if "DNS" in text:
        return "no such name"
    if "ECONNREFUSED" in text:
        return REFUSED
    if isinstance(error, kafka.KafkaTimeoutError | kafka.RequestTimedOutError) or "timed out" in text.lower():
        return TIMED_OUT
    if "socket disconnected" in text or isinstance(error, kafka.KafkaConnectionError):
        return CLOSED
    return "wrong answer"


def why(error: BaseException, security: Security) -> str:
    """The cause of the error, with a remedy if one is known."""
    if isinstance(error, NotAnswering | NoToken):
        return str(error)
    text = " ".join(str(error).split())
    if isinstance(error, kafka.SaslAuthenticationFailedError) and security.mechanism == OAUTH:
        return f"it refuses the token of {security.token}: {text.rpartition(': ')[2]}"
    if isinstance(error, kafka.SaslAuthenticationFailedError):
        return f"it refuses user {security.username!r}: check sasl_username, the password and sasl_mechanism"
    if isinstance(error, kafka.UnsupportedSaslMechanismError):
        return f"it does not take sasl_mechanism {security.mechanism}: {text.rpartition(': ')[2] or 'try another'}"
    if isinstance(error, kafka.IllegalSaslStateError):
        return f"this listener takes no SASL: security_protocol is {security.protocol}"
    if "DNS" in text:
        return "its name cannot be resolved"
    if "Handshake failed" in text or "SSL" in text:
        return _tls(text, security)
    if found := _NO_KAFKA.search(text):
        return _no_kafka(found[1], security)
    if isinstance(error, kafka.KafkaTimeoutError | kafka.RequestTimedOutError) or "timed out" in text.lower():
        return "it does not answer in time"
    if "ECONNREFUSED" in text:
        return "it refuses connections: is the broker up, and is this its port?"
    if "socket disconnected" in text or isinstance(error, kafka.KafkaConnectionError):
        return _closed(text, security)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _tls(text: str, security: Security) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = re.search(r"certificate verify failed: ([^(]+)", text)
        words = reason[1].strip() if reason else text
        return f"its certificate is not accepted: {words} (ssl_ca_file, ssl_check_hostname)"
    # Java's TLS 1.3 says "bad certificate" where none came.
    none = "BAD_CERTIFICATE" in text and not security.certificate_file
    if none or "certificate required" in text.lower() or "CERTIFICATE_REQUIRED" in text:
        return "it wants a certificate of the client: set ssl_certificate_file and ssl_key_file"
    if "ALERT" in text or "alert" in text:
        return f"it refuses this side's TLS: {text.removeprefix('Handshake failed: ')}"
    return "the TLS handshake fails: is this a listener with TLS? (security_protocol)"


def _no_kafka(length: str | None, security: Security) -> str:
    if length and int(length) >> 24 & 0xFF == _TLS_ALERT:
        return f"it speaks TLS, and security_protocol is {security.protocol}"
    return "what answers there is no Kafka broker, or wants another security_protocol"


def _closed(text: str, security: Security) -> str:
    wants = [
        *([] if security.tls else ["TLS"]),
        *(
            ["a certificate of the client (ssl_certificate_file)"]
            if security.tls and not security.certificate_file
            else []
        ),
        *([] if security.sasl else ["SASL"]),
    ]
    wanted = f"{' or '.join(wants) or 'something else'} (security_protocol is {security.protocol})"
    reason = "" if "socket disconnected" in text or not text else f" ({text})"
    # A broker that refuses a password closes, too: who is slow to read sees that first.
    user = f"does it refuse user {security.username!r}, " if security.sasl else ""
    return f"it closes the connection{reason}: {user}is it a Kafka broker, and does this listener want {wanted}?"
