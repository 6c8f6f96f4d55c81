"""One lap of one contestant, in this process: `python -m benchmarks.lap [--warm] module:function amount...`."""

import gc
import importlib
import json
import sys


def main(arguments: list[str]) -> None:
    """Print the lap as a JSON list, on the last line."""
    warm, (name, *amounts) = arguments[0] == "--warm", [word for word in arguments if word != "--warm"]
    module, _, function = name.partition(":")
    run = getattr(importlib.import_module(module), function)
    amount, *others = map(int, amounts)
    if warm:
        run(max(1, amount // 20), *others)
    gc.collect()
    lap = run(amount, *others)
    print(json.dumps(lap if isinstance(lap, list) else [lap]))


if __name__ == "__main__":
    main(sys.argv[1:])
