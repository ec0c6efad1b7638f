"""The command `completion`: the script by which a shell completes commands, options and names of
nodes.
"""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print what makes SHELL complete `implicast`: commands, options, and names of local nodes.

    \b
    eval "$(implicast completion bash)"            in ~/.bashrc
    eval "$(implicast completion zsh)"             in ~/.zshrc
    implicast completion fish > ~/.config/fish/completions/implicast.fish
    """
    from implicast.cli import main

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    click.echo(kind(main, {}, "implicast", "_IMPLICAST_COMPLETE").source())
