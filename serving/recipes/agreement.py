"""What a recipe says twice must be the same: ports, context, names (CFG-10).

A slot probes `port`; an engine whose own command fixes another one is up and never found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from common.problems import Place, Problem
from common.source import Path, read_file
from serving.recipes.blocks import Ds4, Eugr, Llamacpp, Sparkinfer
from serving.recipes.codes import problem
from serving.recipes.flags import value_of
from serving.recipes.recipe import Recipe
from serving.recipes.schema import Sglang, Vllm
from serving.recipes.service import template_fault

PORT: Final = ("--port",)
CONTEXT: Final = ("--max-model-len", "--context-length", "--ctx-size", "--ctx", "-c")
NAME: Final = ("--served-model-name", "--alias", "-a")
RUNNER_SETS: Final = frozenset(
    {"port", "host", "tensor_parallel", "gpu_memory_utilization", "max_model_len"}
)


def check(recipe: Recipe) -> Iterator[Problem]:
    """Everything that is said twice and not the same."""
    yield from _environment(recipe)
    if args := _arguments(recipe):
        path, given = args
        yield from _options(recipe, given, recipe.source.place(path))
    if isinstance(recipe.block, Eugr):
        yield from _service(recipe, recipe.block)
    if isinstance(recipe.block, Sparkinfer):
        yield from _sparkinfer(recipe, recipe.block)
    if isinstance(recipe.block, Ds4) and recipe.block.pin:
        pin = recipe.block.pin
        yield from _port(recipe, pin.runtime.port, "the pin", recipe.source.value(("pin",)))
        yield from _pinned(recipe, pin.model.served_name, pin.runtime.max_safe_ctx)


def _arguments(recipe: Recipe) -> tuple[Path, tuple[str, ...]] | None:
    block = recipe.block
    match block:
        case Llamacpp():
            return ("llamacpp_args",), block.args
        case Ds4():
            return ("ds4_args",), block.args
        case Vllm() | Sglang():
            return (recipe.engine, "args"), block.args
        case Eugr():
            return ("eugr", "args"), block.options.args
    return None


def _options(recipe: Recipe, args: tuple[str, ...], at: Place) -> Iterator[Problem]:
    port, context = value_of(args, *PORT), value_of(args, *CONTEXT)
    name = value_of(args, *NAME)
    if port is not None:
        yield from _port(recipe, port, "the command", at)
    if context is not None and context != str(recipe.context.default):
        said = f"the command fixes {context} tokens and `context.default` is"
        said += f" {recipe.context.default}: they must be the same"
        yield problem(at, "context-differs", said)
    if name is not None and name != recipe.served_name:
        said = f"the command serves '{name}' and `served_name` is '{recipe.served_name}'"
        yield problem(at, "name-differs", said)


def _port(recipe: Recipe, port: str | int, what: str, at: Place) -> Iterator[Problem]:
    if str(port) != str(recipe.port):
        said = f"{what} fixes port {port}, and the slot would probe `port` {recipe.port}"
        yield problem(at, "port-differs", said + ": the engine would be up and never found")


def _environment(recipe: Recipe) -> Iterator[Problem]:
    port = recipe.env.get("PORT")
    if port is not None:
        yield from _port(recipe, port, "`env.PORT`", recipe.source.value(("env", "PORT")))


def _service(recipe: Recipe, block: Eugr) -> Iterator[Problem]:
    """The runner's options and its service file; what is wrong in the latter has a place there."""
    file, options = block.service.file, block.options
    source = read_file(block.service.path)
    at = source.place(("command",))
    fault = template_fault(file, RUNNER_SETS)
    if fault:
        yield problem(at, "service-command", f"the runner cannot fill in the command: {fault}")
        return
    if "port" in file.defaults:
        place = source.value(("defaults", "port"))
        yield from _port(recipe, str(file.defaults["port"]), "`defaults.port`", place)
    words = tuple(block.service.command({"port": recipe.port}).replace("\\\n", " ").split())
    fixed = value_of(words, *PORT)
    if fixed is not None:
        yield from _port(recipe, fixed, "the command", at)
    elif recipe.port != 8000:
        yield from _port(recipe, 8000, "without --port the command", at)
    served = value_of(words, *NAME) or (file.model or "")
    if served and served != recipe.served_name:
        said = f"the command serves '{served}' and `served_name` is '{recipe.served_name}'"
        yield problem(at, "name-differs", said)
    length = file.defaults.get("max_model_len")
    if length is not None and length != recipe.context.default:
        said = f"`defaults.max_model_len` is {length} and the recipe's `context.default` is"
        place = source.value(("defaults", "max_model_len"))
        yield problem(place, "context-differs", f"{said} {recipe.context.default}")
    yield from _solo(recipe, block)
    if options.solo and file.cluster_only:
        said = f"{file.name} runs on several machines only, and the recipe says `solo`"
        yield problem(recipe.place(("eugr", "solo")), "solo", said)


def _solo(recipe: Recipe, block: Eugr) -> Iterator[Problem]:
    options = block.options
    if options.solo and (options.no_ray or options.nodes or options.master_port):
        said = "`solo` is one machine without Ray: no_ray, nodes and master_port need `solo: false`"
        yield problem(recipe.place(("eugr",)), "solo", said)
    if not options.solo and not options.nodes:
        said = "without `solo` the runner asks on a terminal for its machines: name them in `nodes`"
        yield problem(recipe.place(("eugr",)), "solo", said)


def _sparkinfer(recipe: Recipe, block: Sparkinfer) -> Iterator[Problem]:
    runtime = block.pin.runtime
    at = recipe.source.value(("pin",))
    yield from _port(recipe, runtime.port, "the pin", at)
    if runtime.default_ctx != recipe.context.default:
        said = f"the pin runs {runtime.default_ctx} tokens and `context.default` is"
        yield problem(at, "context-differs", f"{said} {recipe.context.default}")
    method = recipe.speculative.method if recipe.speculative else "off"
    if method != runtime.mode:
        said = f"the pin's mode is {runtime.mode} and `speculative.method` is {method}"
        yield problem(recipe.place(("speculative", "method")), "pin-differs", said)
    if not block.pin.source.image_digest:
        said = "the pin has no `image_digest`: another image may have its tag tomorrow"
        yield problem(at, "pin-digest", said)


def _pinned(recipe: Recipe, served_name: str, max_ctx: int) -> Iterator[Problem]:
    if served_name != recipe.served_name:
        said = f"the pin serves '{served_name}' and `served_name` is '{recipe.served_name}'"
        yield problem(recipe.source.value(("served_name",)), "name-differs", said)
    asked = [("context", "default", recipe.context.default)]
    asked += [("context", f"presets.{n}", p.ctx) for n, p in recipe.context.presets.items()]
    for block, name, tokens in asked:
        if tokens > max_ctx:
            said = f"`{block}.{name}` is {tokens}; the pin holds {max_ctx} tokens for safe"
            yield problem(recipe.place(("context",)), "pin-differs", said)
