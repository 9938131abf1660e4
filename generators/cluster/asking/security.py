"""Access to a cluster: the settings of kafka-python for TLS and SASL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from pipelines.errors import UsageError

OAUTH = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTH)


class NoToken(Exception):
    """Raised if the token function fails; the message has its name and the error."""


@dataclass(frozen=True)
class Security:
    """A listener's protocol, with the names, files and passwords for it."""

    protocol: str = "PLAINTEXT"
    mechanism: str = "PLAIN"
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    key_password: str = field(default="", repr=False)
    check_hostname: bool = True
    token: str = ""
    """MODULE:FUNCTION, which returns a token for OAUTHBEARER, or (token, when it expires), at each connection."""

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def check(self) -> None:
        """Raise UsageError for settings that cannot work, before a connection is made."""
        if self.sasl and self.mechanism == OAUTH:
            self._token_function()
        elif self.sasl and not (self.username and self.password):
            raise UsageError(
                f"security_protocol {self.protocol} needs sasl_username and a password: set "
                "HWMARK_WATCH__SASL_USERNAME and HWMARK_WATCH__SASL_PASSWORD, or sasl_password to env:NAME or file:PATH"
            )
        if self.tls:
            self._check_files()

    def _token_function(self) -> Callable[[], object]:
        module, _, name = self.token.partition(":")
        wrong = f"watch.sasl_token is {self.token!r}: with {OAUTH} it names MODULE:FUNCTION, which returns a token"
        if not module or not name:
            raise UsageError(wrong)
        try:
            function = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise UsageError(f"{wrong}; {error} (is its folder in PYTHONPATH?)") from error
        if not callable(function):
            raise UsageError(f"{wrong}; {name} is none")
        return function  # type: ignore[no-any-return]

    def _check_files(self) -> None:
        """Raise UsageError for TLS files that do not load: otherwise the broker would seem not to answer."""
        import ssl

        context = ssl.create_default_context()
        try:
            if self.ca_file:
                context.load_verify_locations(self.ca_file)
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file or None, lambda: self.key_password)
        except OSError as error:
            names = ", ".join(filter(None, (self.ca_file, self.certificate_file, self.key_file)))
            raise UsageError(f"cannot load the TLS files {names}: {error.strerror or error}") from error

    def kafka(self) -> dict[str, Any]:
        """The settings of kafka-python's connections."""
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls:
            settings |= {
                "ssl_check_hostname": self.check_hostname,
                "ssl_cafile": self.ca_file or None,
                "ssl_certfile": self.certificate_file or None,
                "ssl_keyfile": self.key_file or None,
                "ssl_password": self.key_password or None,
            }
        if self.sasl and self.mechanism == OAUTH:
            settings |= {
                "sasl_mechanism": OAUTH,
                "sasl_oauth_token_provider": _provider(self.token, self._token_function()),
            }
        elif self.sasl:
            settings |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return settings


def _provider(name: str, function: Callable[[], object]) -> object:
    """The named function as a token provider of kafka-python."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            try:
                made = function()
            except Exception as error:
                raise NoToken(f"{name} gives no token: {type(error).__name__}: {error}") from error
            return str(made[0] if isinstance(made, tuple) else made)

    return Provider()
