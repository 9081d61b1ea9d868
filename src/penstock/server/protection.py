"""What answers tell browsers: what a page may load and run, and who may show it.

Without these a name or text that became HTML in spite of all could run as a script (it has no nonce), a
foreign page could show ours in a frame and have its buttons clicked (``frame-ancestors``,
``X-Frame-Options``), take an answer for a script or a picture (``nosniff``,
``Cross-Origin-Resource-Policy``), or learn an address (``Referrer-Policy``).

NiceGUI evaluates texts of its own server as code (``run_javascript``, handlers of events), so ``unsafe-eval``
stays, and Quasar sets styles of elements, so ``unsafe-inline`` stays for styles: neither runs a script that
stands in a page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

NONCE = "nonce"
"""Where the nonce of a request is in its state."""

_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-eval' 'nonce-{nonce}'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def protected(send: Send, nonce: str) -> Send:
    """Add the headers to an answer that does not have them; ``nonce``: what the scripts of the page have.

    Nothing is kept by browsers but files that never change under their name, which say so themselves.
    """
    headers = {
        **_HEADERS,
        "content-security-policy": _POLICY.format(nonce=nonce),
        "cache-control": "no-store",
    }

    async def with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            own = {name.decode("latin-1").casefold() for name, _ in given}
            given += [(n.encode(), v.encode()) for n, v in headers.items() if n not in own]
            message = {**message, "headers": given}
        await send(message)

    return with_headers
