"""The REST example walks its articles, both ways, and refuses what is not the reader's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, delete
from sqlalchemy.orm import Session

from examples import rest_keyset
from examples.rest_keyset import Article
from tests.codecs_table import RING

pytestmark = pytest.mark.anyio


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Return the example's database."""
    engine = rest_keyset.new_engine()
    yield engine
    engine.dispose()


@pytest.fixture
async def client(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the example's service, of the reader Alice."""
    transport = httpx.ASGITransport(rest_keyset.new_app(RING, engine))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://blog", headers={"Reader": "alice"}
    ) as client:
        yield client


async def get(client: httpx.AsyncClient, **params: str) -> dict[str, Any]:
    """Return a page."""
    response = await client.get("/articles", params=params)
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page


def ids(page: dict[str, Any]) -> list[int]:
    """Return the ids on a page."""
    return [item[0] for item in page["items"]]


async def test_the_articles_are_walked_to_the_end_and_back(client: httpx.AsyncClient) -> None:
    """Newest first, three a page, and the same pages on the way back."""
    pages = [await get(client)]
    while (cursor := pages[-1]["next"]) is not None:
        pages.append(await get(client, cursor=cursor))
        assert len(pages) <= 4
    assert [ids(page) for page in pages] == [[8, 9, 4], [5, 6, 7], [0, 1, 2], [3]]
    back = pages[-1:]
    while (cursor := back[0]["previous"]) is not None:
        back.insert(0, await get(client, cursor=cursor))
    assert [ids(page) for page in back] == [ids(page) for page in pages]


async def test_a_deleted_article_skips_no_other(client: httpx.AsyncClient, engine: Engine) -> None:
    """The last one of the page is gone before the next page is asked for."""
    first = await get(client)
    with Session(engine) as session:
        session.execute(delete(Article).where(Article.id == ids(first)[-1]))
        session.commit()
    assert ids(await get(client, cursor=first["next"])) == [5, 6, 7]


async def test_the_filter_is_part_of_the_walk(client: httpx.AsyncClient) -> None:
    """A tag's walk holds that tag's articles, and goes on under that tag only."""
    first = await get(client, tag="odd")
    assert ids(first) == [9, 5, 7]
    assert ids(await get(client, tag="odd", cursor=first["next"])) == [1, 3]


@pytest.mark.parametrize(
    ("params", "reader"),
    [
        ({"tag": "even"}, "alice"),
        ({}, "alice"),
        ({"tag": "odd"}, "mallory"),
        ({"tag": ""}, "alice"),
    ],
)
async def test_a_cursor_of_another_reader_or_filter_is_refused(
    client: httpx.AsyncClient, params: dict[str, str], reader: str
) -> None:
    """With the one message that every refusal has."""
    cursor = (await get(client, tag="odd"))["next"]
    response = await client.get(
        "/articles", params={**params, "cursor": cursor}, headers={"Reader": reader}
    )
    assert (response.status_code, response.json()) == (
        400,
        {"detail": "Invalid or expired cursor"},
    )


@pytest.mark.parametrize("cursor", ["", "0", "bogus", "%00", "é", "A" * 5000, "EhIS+/=="])
async def test_what_is_no_cursor_is_never_the_first_page(
    client: httpx.AsyncClient, cursor: str
) -> None:
    """Garbage and the empty cursor are refused with the same message."""
    response = await client.get("/articles", params={"cursor": cursor})
    assert (response.status_code, response.json()) == (
        400,
        {"detail": "Invalid or expired cursor"},
    )


async def test_a_cursor_needs_no_escapes_in_a_url(client: httpx.AsyncClient) -> None:
    """It may be put into a link as it is."""
    cursor = (await get(client))["next"]
    response = await client.get(f"/articles?cursor={cursor}")
    assert ids(response.json()) == [5, 6, 7]
