"""The whole command line, put together from its parts."""

from vesica.cli import nvflare, post
from vesica.cli.audit import audit
from vesica.cli.commands import app

__all__ = ["app"]

app.command()(audit)
app.add_typer(nvflare.app, name="nvflare")
app.add_typer(post.app, name="post")
