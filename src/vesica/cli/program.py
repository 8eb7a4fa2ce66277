"""The whole command line, put together from its parts."""

from vesica.cli import nvflare, post
from vesica.cli.commands import app

__all__ = ["app"]

app.add_typer(nvflare.app, name="nvflare")
app.add_typer(post.app, name="post")
