"""Bearer tokens, each with a scope, from a file of lines such as `write 3f9c...`, `read a01b...`."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from bayou.core.errors import BadInput
from bayou.serve.responses import RequestError

READ, WRITE = "read", "write"
MIN_TOKEN_CHARS = 16


class Tokens:
    """Scopes of tokens; without a file, clients may do everything."""

    def __init__(self, scopes: dict[bytes, str] | None = None, path: Path | None = None) -> None:
        self._scopes, self.path = scopes, path

    @classmethod
    def of(cls, path: Path) -> Tokens:
        """Read the tokens from a file."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            open_to_others = bool(stat.S_IMODE(os.stat(path).st_mode) & 0o077)
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path}: the tokens cannot be read ({error}).") from None
        if open_to_others and os.name == "posix":
            raise BadInput(f"{path} can be read by others; tokens are secret: chmod 600 {path}.")
        scopes = {}
        for line_number, line in enumerate(lines, 1):
            fields = line.split()
            if not fields or fields[0].startswith("#"):
                continue
            if len(fields) != 2 or fields[0] not in (READ, WRITE):
                raise BadInput(f"{path}:{line_number}: expected `read TOKEN` or `write TOKEN`.")
            if len(fields[1]) < MIN_TOKEN_CHARS:
                raise BadInput(
                    f"{path}:{line_number}: a token has at least {MIN_TOKEN_CHARS} characters; `openssl rand -hex 32`."
                )
            scopes[_digest(fields[1].encode())] = fields[0]
        if not scopes:
            raise BadInput(f"{path} holds no tokens; expected lines such as `write TOKEN`.")
        return cls(scopes, path)

    def reload(self) -> int:
        """Reload the file and return the number of tokens; raise BadInput and keep the old ones if it is invalid."""
        assert self.path is not None
        self._scopes = Tokens.of(self.path)._scopes or {}
        return len(self._scopes)

    @property
    def needed(self) -> bool:
        return self._scopes is not None

    def may(self, header: bytes | None, scope: str) -> bool:
        """Return whether `check` allows a request."""
        try:
            self.check(header, scope)
        except RequestError:
            return False
        return True

    def check(self, header: bytes | None, scope: str) -> None:
        """Raise RequestError(401 or 403) unless the token has the scope. Digests hide the timing of comparisons."""
        if self._scopes is None:
            return
        kind, _, token = (header or b"").partition(b" ")
        if kind.lower() != b"bearer" or not token:
            raise RequestError(401, "a token is needed: send the header `Authorization: Bearer TOKEN`.")
        granted = self._scopes.get(_digest(token.strip()))
        if granted is None:
            raise RequestError(401, "the token is unknown.")
        if scope == WRITE and granted != WRITE:
            raise RequestError(
                403, "the token may read and predict, not change the model; use one with the scope `write`."
            )


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
