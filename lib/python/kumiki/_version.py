"""That of libkumiki and of the workspace's crates."""

__version__ = "0.1.0"
