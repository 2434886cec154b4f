"""What a file names as its callback: `callbacks: [gateway.bridge.callbacks.recorder]`.

The stock proxy loads this file by its path next to the config, outside the package, and would then
hold a second copy of every class written here: so nothing is. `gateway` must be importable: run
the proxy in the checkout, or with PYTHONPATH on it, or where the package is installed.
"""

from gateway.bridge.recorder import recorder

__all__ = ["recorder"]
