"""A REST list of a database's rows, paged by key: FastAPI over SQLAlchemy.

The newest articles come first, both ways from any page, whatever is published or deleted in
between. A cursor is for its reader, its tag and its order alone, and shows nobody where it points.

    export CURSORKIT_KEYS="$(python -m cursorkit.keys)"
    python examples/rest_keyset.py             # serves http://127.0.0.1:8000/articles
    curl -H 'Reader: alice' 'http://127.0.0.1:8000/articles?tag=even'
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Annotated

import uvicorn
from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy import Engine, StaticPool, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from cursorkit import (
    Binding,
    CursorError,
    ExpiringCodec,
    KeyRing,
    KeysetPaginator,
    SealedCodec,
    asc,
    desc,
)
from cursorkit.adapters.sqlalchemy import apply


class Base(DeclarativeBase):
    pass


class Article(Base):
    __tablename__ = "articles"

    id: Mapped[int] = mapped_column(primary_key=True)
    published: Mapped[date]
    tag: Mapped[str]


class ArticlePage(BaseModel):
    items: list[tuple[int, date, str]]
    next: str | None
    previous: str | None


def new_app(ring: KeyRing, engine: Engine) -> FastAPI:
    codec = ExpiringCodec(SealedCodec(ring), ttl=600)
    # Many articles have one date; the id, which is unique, tells them apart.
    keyset = KeysetPaginator(codec, (desc("published", date), asc("id", int)), page_size=3)
    app = FastAPI()

    @app.exception_handler(CursorError)
    def refuse(request: Request, error: CursorError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 400)  # one message; the log has the reason

    @app.get("/articles")
    def articles(
        reader: Annotated[str, Header()],  # in a real service: whoever is logged in
        tag: str | None = None,
        cursor: str | None = None,
    ) -> ArticlePage:
        binding = Binding("articles", audience="blog", principal=reader, params={"tag": tag})
        plan = keyset.plan(cursor, binding)
        statement = select(Article) if tag is None else select(Article).where(Article.tag == tag)
        with Session(engine) as session:
            rows = session.scalars(apply(statement, plan, Article.published, Article.id))
            page = keyset.finish(plan, rows, key=lambda row: (row.published, row.id))
            items = [(item.id, item.published, item.tag) for item in page.items]
        return ArticlePage(items=items, next=page.next_cursor, previous=page.previous_cursor)

    return app


def new_engine() -> Engine:
    memory = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    engine = create_engine("sqlite://", **memory)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        for n in range(10):
            day = date(2026, 1, 1) + timedelta(n // 4)
            session.add(Article(id=n, published=day, tag="odd" if n % 2 else "even"))
        session.commit()
    return engine


if __name__ == "__main__":
    uvicorn.run(new_app(KeyRing.from_env(), new_engine()))
