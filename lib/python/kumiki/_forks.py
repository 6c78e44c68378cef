"""What a child of fork(2) makes of the templates of its parent, and of their children: they are the parent's."""

import os
import threading
import weakref
from typing import Any

# By identity, as the children of a template are compared by nothing else.
templates: "weakref.WeakSet[Any]" = weakref.WeakSet()
children: "weakref.WeakSet[Any]" = weakref.WeakSet()


def _begin_anew() -> None:
    """A thread that is gone here may have held a lock; and what is heard here is not heard by the parent."""
    for template in list(templates):
        template._lock = threading.Lock()
        # The answer that tells of it is the parent's to take.
        template._is_lost = not template._is_ready
    for child in list(children):
        child._hearing = threading.Lock()
        child._lose()
        # Nor is it this process's to warn of.
        child._child_created = False


os.register_at_fork(after_in_child=_begin_anew)
