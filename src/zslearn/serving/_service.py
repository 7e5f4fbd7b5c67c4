"""`create_app` and `serve`: the application of a model, and a server of it until Ctrl-C.

What needs the extra ``serve`` is imported when they are called, so that an error names the extra.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from zslearn._utils._optional import import_optional
from zslearn.serving._recognizer import Recognizer

if TYPE_CHECKING:
    from fastapi import FastAPI

#: A token that can be guessed is none.
_SHORTEST_TOKEN = 16


def create_app(model: Recognizer | str | os.PathLike[str], *, token: str | None = None) -> FastAPI:
    """An ASGI application that serves a model, for a server of one's own.

    Parameters
    ----------
    model : Recognizer or path
        What answers; a path is that of a model file.
    token : str, optional
        What requests must carry as ``Authorization: Bearer TOKEN``, of 16 characters at least.
        Without one, only requests to a name of this machine (localhost) are answered.

    Returns
    -------
    FastAPI
        The application, of which one process may serve a model file at a time: others would
        not see the classes that are added.

    Raises
    ------
    ImportError
        A package of the extra ``serve`` is not installed; the message names it.

    Examples
    --------
    >>> import tempfile, zslearn
    >>> from pathlib import Path
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.serving import create_app
    >>> data = make_zero_shot(random_state=0)
    >>> model = zslearn.EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zslearn.save(model, Path(folder, "made_up.zsl"))
    ...     app = create_app(Path(folder, "made_up.zsl"))
    >>> sorted(app.openapi()["paths"])[:4]
    ['/about', '/adapt', '/classes', '/classes/{name}']
    """
    _check_packages()
    from zslearn.serving._app import build_app

    _check_token(token)
    return build_app(model if isinstance(model, Recognizer) else Recognizer(model), token)


def serve(
    model: Recognizer | str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
) -> None:
    """Serve a model until the process is stopped.

    Parameters
    ----------
    model : Recognizer or path
        What answers; a path is that of a model file.
    host : str, default="127.0.0.1"
        The address to listen at; one that other machines can reach needs a token.
    port : int, default=8000
        The port.
    token : str, optional
        See :func:`create_app`.

    Raises
    ------
    ValueError
        Other machines could reach the service, and there is no token.
    RuntimeError
        Another process serves these classes; the message names it.
    """
    _check_packages()
    import uvicorn

    from zslearn.serving._guard import is_loopback, server_config

    _check_token(token)
    if token is None and not is_loopback(host):
        raise ValueError(
            f"Other machines can reach {host}: give a token (--token), or serve this machine alone "
            "(--host 127.0.0.1)."
        )
    recognizer = model if isinstance(model, Recognizer) else Recognizer(model)
    app = create_app(recognizer, token=token)
    with recognizer.held():
        uvicorn.Server(server_config(app, host, port, recognizer.limits)).run()


def _check_packages() -> None:
    for module in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        import_optional(module, "The service")


def _check_token(token: str | None) -> None:
    if token is not None and not re.fullmatch(f"[!-~]{{{_SHORTEST_TOKEN},}}", token):
        raise ValueError(
            f"The token must be {_SHORTEST_TOKEN} characters or more, of ASCII and without spaces; "
            'make one with: python -c "import secrets; print(secrets.token_urlsafe())"'
        )
