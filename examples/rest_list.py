"""A REST list in pages, with FastAPI: a walk is one list, whatever is published meanwhile.

export CURSORKIT_KEYS="$(python -m cursorkit.keys)"
uvicorn --factory examples.rest_list:new_app
curl -H 'X-User: alice' 'http://127.0.0.1:8000/articles?tag=news'
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException, Query
from pydantic import BaseModel

from cursorkit import (
    Binding,
    CursorError,
    ExpiringCodec,
    KeyRing,
    MemoryStore,
    ModelItems,
    SignedCodec,
    SnapshotPaginator,
)


class Article(BaseModel):
    id: int
    title: str
    tag: str


class ArticlePage(BaseModel):
    items: list[Article]
    next_cursor: str | None = None
    total: int | None = None


ARTICLES = [
    Article(id=number, title=f"Article {number}", tag=("news", "sport")[number % 2])
    for number in range(1, 13)
]

ITEMS = ModelItems(Article)


async def articles(tag: str | None) -> list[Article]:
    """Return the newest first; in earnest, ask a database here."""
    return [article for article in reversed(ARTICLES) if tag in {None, article.tag}]


def user(x_user: Annotated[str, Header()]) -> str:
    """Return who asks; in earnest, look at a session or a token."""
    return x_user


def new_app(ring: KeyRing | None = None) -> FastAPI:
    ring = KeyRing.from_env() if ring is None else ring
    codec = ExpiringCodec(SignedCodec(ring), ttl=600)
    paginator = SnapshotPaginator(codec, MemoryStore(), page_size=4)
    app = FastAPI(title="Articles")

    @app.get("/articles")
    async def list_articles(
        who: Annotated[str, Depends(user)],
        tag: str | None = None,
        cursor: Annotated[str | None, Query(description="`next_cursor` of a page")] = None,
    ) -> ArticlePage:
        # All that decides what is listed: a cursor is refused wherever one of these is another.
        binding = Binding("GET /articles", principal=who, audience="blog", params={"tag": tag})
        try:
            page = await paginator.page(
                cursor, lambda: articles(tag), binding, key=lambda article: article.id, items=ITEMS
            )
        except CursorError as error:
            # One message for every reason; the log has the reason.
            raise HTTPException(400, str(error)) from None
        return ArticlePage(items=page.items, next_cursor=page.next_cursor, total=page.total)

    return app
