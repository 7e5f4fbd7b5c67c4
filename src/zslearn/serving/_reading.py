"""Bodies of requests, read with limits and never to the disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from zslearn.serving._limits import Limits
from zslearn.serving._refusals import Refusal
from zslearn.utils import plain

Body = TypeVar("Body", bound=BaseModel)


class _InMemory(MultiPartParser):
    # 0: files stay in memory, however large; the body is limited.
    spool_max_size = 0


def content_type(request: Request) -> str:
    """The kind of a body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _chunks(request: Request, limits: Limits) -> AsyncGenerator[bytes, None]:
    """The body piece by piece; a Refusal as soon as it is too long."""
    too_long = Refusal(413, f"The body is longer than {limits.body_bytes} bytes.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 18 or int(length) > limits.body_bytes):
        raise too_long
    n_bytes = 0
    try:
        async for chunk in request.stream():
            n_bytes += len(chunk)
            if n_bytes > limits.body_bytes:
                raise too_long
            yield chunk
    except ClientDisconnect:
        raise Refusal(400, "The request ended in the middle.") from None


async def read_json(request: Request, kind: type[Body], limits: Limits) -> Body:
    """A body of JSON as an object; a Refusal that says what is wrong with it."""
    # Pages of other servers can send other kinds without asking first.
    if content_type(request) != "application/json":
        raise Refusal(415, "The body must be JSON, with Content-Type: application/json.")
    body = b"".join([chunk async for chunk in _chunks(request, limits)])
    try:
        # Megabytes of numbers take a while, in which others shall be answered.
        if len(body) > 2**16:
            return await asyncio.to_thread(kind.model_validate_json, body)
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise Refusal(422, _reason(error)) from None
    except (ValueError, RecursionError) as error:
        raise Refusal(422, f"The body cannot be read: {plain(error, 200)}.") from None


def _reason(error: ValidationError) -> str:
    """The first thing that is wrong, in one line."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    first = errors[0]
    alternatives = [e for e in errors if len(first["loc"]) > 1 and e["loc"][0] == first["loc"][0]]
    if any(_is_alternative(part) for part in first["loc"]):
        # Of what a value may be, the one that it nearly is: it fails further inside.
        first = max(alternatives, key=lambda e: (len(e["loc"]), not e["type"].endswith("_type")))
    where = ""
    for part in first["loc"]:
        if isinstance(part, int):
            where += f"[{part}]"
        elif not _is_alternative(part):
            where += f".{plain(part, 60)}" if where else plain(part, 60)
    message = plain(first["msg"], 300)
    return f"{where}: {message}" if where else message


def _is_alternative(part: int | str) -> bool:
    """Whether a part of a place is not a key but one of the kinds that a value may be of."""
    return isinstance(part, str) and part.startswith(("dict[", "list[", "constrained-"))


async def read_images(request: Request, limits: Limits) -> list[tuple[str, bytes]]:
    """Names and contents of the image files in a form."""
    parser = _InMemory(
        request.headers, _chunks(request, limits), max_files=limits.batch, max_fields=0
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Refusal(422, f"The form cannot be read: {plain(error.message, 200)}") from None
    except Refusal:
        raise
    # Headers of parts that are no text, and whatever else a parser stumbles over.
    except (ValueError, LookupError, AssertionError) as error:
        raise Refusal(422, f"The form cannot be read: {plain(error, 200)}.") from None
    images = []
    for place, (field, value) in enumerate(form.multi_items()):
        if not isinstance(value, UploadFile) or field != "images":
            raise Refusal(422, "Every part of the form must be a file in the field 'images'.")
        name = plain(value.filename or "", 200) or f"image {place}"
        images.append((name, await value.read()))
        await value.close()
    if not images:
        raise Refusal(422, "The form holds no files in the field 'images'.")
    return images
