"""Modules that misbehave, as small sources, each with the exit codes that are right for it.

``CALL`` stands for the call of the reference, so that a module gives what is right beside what it does; ``at import``
its lines run alone, ``in a call`` they run before the call.
"""

from dataclasses import dataclass

HEAD = """
import ctypes, gc, json, os, pickle, signal, struct, subprocess, sys, threading, time, builtins
import numpy as np
from specsim import reference

def right(accept_tokens, num_accepted_tokens):
    return reference.fill_bonus_tokens(accept_tokens, num_accepted_tokens)
"""
CALL = "right(accept_tokens, num_accepted_tokens)"
DEFINED = "def fill_bonus_tokens(accept_tokens, num_accepted_tokens):\n"
CONFORMS, FAILS, USAGE, INCONCLUSIVE, UNAVAILABLE, NOTHING = 0, 1, 2, 3, 4, 5


@dataclass(frozen=True)
class Hostile:
    """A module by its source, and the exit codes of a check of it that are right."""

    name: str
    source: str
    codes: tuple[int, ...]


def _indented(lines: str) -> str:
    return "".join(f"    {line}\n" for line in lines.strip("\n").splitlines())


def at_import(lines: str) -> str:
    """Return the source of a module that does something when it is imported, and gives what is right then."""
    return f"{HEAD}\n{lines}\n\n{DEFINED}    return {CALL}\n"


def in_a_call(lines: str, answer: str = CALL) -> str:
    """Return the source of a module that does something in every call."""
    return f"{HEAD}\n{DEFINED}{_indented(lines)}    return {answer}\n"


def as_answer(answer: str) -> str:
    """Return the source of a module that answers something in the place of an array."""
    return f"{HEAD}\n{DEFINED}    found = {CALL}\n    return {answer}\n"


UNPRINTABLE = (
    "class Odd(Exception):\n    def __str__(self): raise RuntimeError('no words')\n    __repr__ = __str__\nraise Odd"
)
EVIL = (
    "class Evil:\n    def __reduce__(self): return os.system, (f'touch {os.getcwd()}/owned',)\n"
    "crafted = pickle.dumps(('done', Evil()))\n"
)


def to_descriptors(written: str, function: str = "os.write(one, {})") -> str:
    """Return lines that write something to every descriptor that the process may have been given."""
    return f"for one in range(3, 64):\n    try: {function.format(written)}\n    except OSError: pass"


HUGE = "'x' * 50_000_000"
ESCAPES = r"'\x1b[2J\x1b]0;owned\x07\r\n\x9b31m\u202e\x00'"

AT_IMPORT = {
    "raises an error": ("raise ValueError('no')", UNAVAILABLE),
    "raises an import error": ("raise ImportError('no')", UNAVAILABLE),
    "imports what is absent": ("import specsim_is_not_there", UNAVAILABLE),
    "raises BaseException": ("raise BaseException('no')", UNAVAILABLE),
    "raises KeyboardInterrupt": ("raise KeyboardInterrupt", UNAVAILABLE),
    "raises GeneratorExit": ("raise GeneratorExit", UNAVAILABLE),
    "raises StopIteration": ("raise StopIteration", UNAVAILABLE),
    "raises MemoryError": ("raise MemoryError", UNAVAILABLE),
    "raises RecursionError": ("def f(): f()\nf()", UNAVAILABLE),
    "exits": ("sys.exit(0)", UNAVAILABLE),
    "exits with words": ("sys.exit('bye')", UNAVAILABLE),
    "leaves": ("os._exit(0)", UNAVAILABLE),
    "aborts": ("os.abort()", UNAVAILABLE),
    "kills itself": ("os.kill(os.getpid(), signal.SIGKILL)", UNAVAILABLE),
    "terminates itself": ("os.kill(os.getpid(), signal.SIGTERM)", UNAVAILABLE),
    "stops itself": ("os.kill(os.getpid(), signal.SIGSTOP)", UNAVAILABLE),
    "faults": ("ctypes.string_at(0)", UNAVAILABLE),
    "sleeps": ("time.sleep(100_000)", UNAVAILABLE),
    "spins": ("while True: pass", UNAVAILABLE),
    "raises a huge message": (f"raise ValueError({HUGE})", UNAVAILABLE),
    "raises escape sequences": (f"raise ValueError({ESCAPES})", UNAVAILABLE),
    "raises half a character": ("raise ValueError('\\ud800')", UNAVAILABLE),
    "raises what cannot be printed": (
        UNPRINTABLE,
        UNAVAILABLE,
    ),
    "raises words of another kind": (
        "class Text(str):\n    def __str__(self): return self\n    def split(self, *_): return 7\n"
        "class Odd(Exception):\n    def __str__(self): return Text('no')\nraise Odd",
        UNAVAILABLE,
    ),
    "raises itself as its own cause": (
        "try:\n    raise ValueError\nexcept ValueError as e:\n    e.__cause__ = e\n    raise e",
        UNAVAILABLE,
    ),
    "has no syntax": ("def (", UNAVAILABLE),
    "has a null byte": ("\x00", UNAVAILABLE),
    "prints escape sequences": (f"print({ESCAPES})", CONFORMS),
    "prints a flood": ("for _ in range(64):\n    os.write(1, b'y' * (1 << 20))", CONFORMS),
    "writes to closed streams": ("sys.stdout.close(); sys.stderr.close()", (CONFORMS, FAILS, UNAVAILABLE)),
    "takes the streams away": ("sys.stdout = sys.stderr = None", (CONFORMS, FAILS, UNAVAILABLE)),
    "changes the folder": ("os.chdir('/')", CONFORMS),
    "closes all descriptors": ("os.closerange(0, 64)", (CONFORMS, UNAVAILABLE)),
    "writes garbage to descriptors": (
        "for one in range(3, 64):\n    try: os.write(one, b'\\x7f' * 4096)\n    except OSError: pass",
        (CONFORMS, UNAVAILABLE),
    ),
    "writes a huge length to descriptors": (
        "for one in range(3, 64):\n    try: os.write(one, struct.pack('!iQ', -1, 1 << 62))\n    except OSError: pass",
        (CONFORMS, UNAVAILABLE),
    ),
    "writes a pickle to descriptors": (
        EVIL + to_descriptors("struct.pack('!i', len(crafted)) + crafted"),
        (CONFORMS, UNAVAILABLE),
    ),
    "forks and both go on": ("os.fork()", (CONFORMS, FAILS, UNAVAILABLE)),
    "leaves a child": ("subprocess.Popen(['sleep', '1000'])", CONFORMS),
    "leaves a daemon": ("subprocess.Popen(['sleep', '1000'], start_new_session=True)", CONFORMS),
    "leaves a thread": ("threading.Thread(target=time.sleep, args=(1000,)).start()", CONFORMS),
    "leaves a spinning thread": (
        "def spin():\n    while True: pass\nthreading.Thread(target=spin).start()",
        (CONFORMS,),
    ),
    "leaves an exit handler that hangs": ("import atexit\natexit.register(time.sleep, 1000)", CONFORMS),
    "ignores every signal": (
        "for one in range(1, 65):\n    try: signal.signal(one, signal.SIG_IGN)\n    except (OSError, ValueError): pass",
        CONFORMS,
    ),
    "blocks every signal": ("signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))", CONFORMS),
    "sets an alarm": ("signal.alarm(1)\ntime.sleep(30)", UNAVAILABLE),
    "takes other handlers": ("signal.signal(signal.SIGTERM, lambda *_: None)", CONFORMS),
    "has a low limit of files": (
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))",
        (CONFORMS, FAILS, UNAVAILABLE),
    ),
    "has a low limit of memory": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))",
        (CONFORMS, FAILS, UNAVAILABLE),
    ),
    "has a low limit of time": (
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass",
        UNAVAILABLE,
    ),
    "empties the environment": ("os.environ.clear()", CONFORMS),
    "empties the path": ("sys.path.clear()", (CONFORMS, FAILS, UNAVAILABLE)),
    "takes itself out of the modules": ("del sys.modules[__name__]", (CONFORMS, UNAVAILABLE)),
    "puts a number in its place": ("sys.modules[__name__] = 7", UNAVAILABLE),
    "puts an object in its place": (
        "class Odd:\n    def __getattr__(self, name): raise RuntimeError(name)\nsys.modules[__name__] = Odd()",
        UNAVAILABLE,
    ),
    "empties the modules": ("sys.modules.clear()", (CONFORMS, FAILS, UNAVAILABLE)),
    "sets a tracer": ("sys.settrace(lambda *_: None)", CONFORMS),
    "lowers the recursion limit": ("sys.setrecursionlimit(60)", (CONFORMS, FAILS, UNAVAILABLE)),
    "turns off collection": ("gc.disable(); gc.set_threshold(1)", CONFORMS),
    "sets a hook of errors": ("sys.excepthook = sys.unraisablehook = None", CONFORMS),
    "warns as an error": ("import warnings\nwarnings.simplefilter('error')", CONFORMS),
    "takes much memory": ("kept = [np.ones(1 << 24) for _ in range(64)]", UNAVAILABLE),
    "changes the umask": ("os.umask(0o777)", (CONFORMS,)),
    "removes the folder": ("import shutil\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')", CONFORMS),
    "stops its parent": ("os.kill(os.getppid(), signal.SIGTERM)", (CONFORMS, INCONCLUSIVE, UNAVAILABLE)),
    "kills its parent": ("os.kill(os.getppid(), signal.SIGKILL)", (CONFORMS, INCONCLUSIVE, UNAVAILABLE)),
    "kills its group": ("os.killpg(0, signal.SIGKILL)", UNAVAILABLE),
    "patches exit": ("os._exit = lambda code: None", CONFORMS),
    "patches json": ("json.dumps = json.loads = None", (CONFORMS, FAILS, UNAVAILABLE)),
    "patches pickle": ("pickle.dumps = pickle.loads = None", (CONFORMS, FAILS, UNAVAILABLE)),
    "patches msgspec": ("import msgspec\nmsgspec.msgpack = None", (CONFORMS, FAILS, UNAVAILABLE)),
    "patches open": ("builtins.open = None", (CONFORMS, FAILS, UNAVAILABLE)),
    "patches len": ("builtins.len = lambda one: 1", (CONFORMS, FAILS, UNAVAILABLE)),
    "patches isinstance": ("builtins.isinstance = lambda *_: False", (CONFORMS, FAILS, UNAVAILABLE)),
    "patches print": ("builtins.print = None", CONFORMS),
    "patches time": ("time.monotonic = lambda: 0.0", CONFORMS),
    "patches time backwards": (
        "now = [0.0]\ndef back():\n    now[0] -= 1000\n    return now[0]\ntime.monotonic = back",
        CONFORMS,
    ),
    "seeds the generators": ("import random\nrandom.seed(0); np.random.seed(0)", CONFORMS),
    "changes print options": ("np.set_printoptions(threshold=0, precision=1)", CONFORMS),
    "makes errors of float warnings": ("np.seterr(all='raise')", CONFORMS),
    "changes the locale": ("import locale\nlocale.setlocale(locale.LC_ALL, 'C')", CONFORMS),
}

IN_A_CALL = {
    "raises": ("raise ValueError('no')", FAILS),
    "raises BaseException": ("raise BaseException('no')", FAILS),
    "raises KeyboardInterrupt": ("raise KeyboardInterrupt", FAILS),
    "raises GeneratorExit": ("raise GeneratorExit", FAILS),
    "raises StopIteration": ("raise StopIteration", FAILS),
    "raises MemoryError": ("raise MemoryError", FAILS),
    "raises AssertionError": ("raise AssertionError", FAILS),
    "raises NotImplementedError": ("raise NotImplementedError", FAILS),
    "raises SpecRejection": (
        "from specsim import Reason, SpecRejection\n"
        "raise SpecRejection(Reason.BAD_SHAPE, what='x', got='y', expected='z', because='w')",
        FAILS,
    ),
    "raises an odd rejection": ("from specsim import SpecRejection\nraise SpecRejection.__new__(SpecRejection)", FAILS),
    "raises Cut": ("from specsim.conformance.isolation.heartbeat import Cut\nraise Cut", (FAILS, INCONCLUSIVE)),
    "raises Poisoned": (
        "from specsim.conformance.isolation.heartbeat import Poisoned\nraise Poisoned('by hand')",
        (FAILS, INCONCLUSIVE),
    ),
    "raises an exception of Hypothesis": (
        "from hypothesis.errors import UnsatisfiedAssumption\nraise UnsatisfiedAssumption",
        FAILS,
    ),
    "raises a skip": ("import unittest\nraise unittest.SkipTest('no')", FAILS),
    "raises a skip of pytest": ("import pytest\npytest.skip('no')", FAILS),
    "raises a huge message": (f"raise ValueError({HUGE})", FAILS),
    "raises many lines": ("raise ValueError('line\\n' * 1_000_000)", FAILS),
    "raises escape sequences": (f"raise ValueError({ESCAPES})", FAILS),
    "raises half a character": ("raise ValueError('\\ud800')", FAILS),
    "raises what cannot be printed": (
        UNPRINTABLE,
        FAILS,
    ),
    "raises what exits when printed": ("class Odd(Exception):\n    def __str__(self): os._exit(0)\nraise Odd", FAILS),
    "raises a class with an odd name": (f"raise type({ESCAPES}.replace(chr(0), ''), (Exception,), {{}})", FAILS),
    "raises a group": ("raise ExceptionGroup('many', [ValueError(str(i)) for i in range(1000)])", FAILS),
    "raises deep causes": (
        "e = ValueError('0')\nfor i in range(5000):\n    f = ValueError(str(i)); f.__cause__ = e; e = f\nraise e",
        FAILS,
    ),
    "recurses": ("def f(): f()\nf()", FAILS),
    "exits": ("sys.exit(0)", FAILS),
    "leaves": ("os._exit(0)", FAILS),
    "aborts": ("os.abort()", FAILS),
    "kills itself": ("os.kill(os.getpid(), signal.SIGKILL)", FAILS),
    "stops itself": ("os.kill(os.getpid(), signal.SIGSTOP)", FAILS),
    "faults": ("ctypes.string_at(0)", FAILS),
    "sleeps": ("time.sleep(100_000)", FAILS),
    "spins": ("while True: pass", FAILS),
    "takes memory": ("kept = []\nwhile True: kept.append(np.ones(1 << 24))", FAILS),
    "prints a flood": ("os.write(1, b'y' * (1 << 22))", CONFORMS),
    "prints escape sequences": (f"print({ESCAPES})", CONFORMS),
    "prints what is no text": ("os.write(2, bytes(range(256)))", CONFORMS),
    "closes all descriptors": ("os.closerange(0, 64)", (CONFORMS, FAILS)),
    "writes garbage to descriptors": (
        "for one in range(3, 64):\n    try: os.write(one, b'\\x7f' * 4096)\n    except OSError: pass",
        (FAILS,),
    ),
    "writes zeros to descriptors": (
        "for one in range(3, 64):\n    try: os.write(one, bytes(4096))\n    except OSError: pass",
        (FAILS,),
    ),
    "writes a huge length to descriptors": (
        "for one in range(3, 64):\n    try: os.write(one, struct.pack('!iQ', -1, 1 << 62))\n    except OSError: pass",
        (FAILS,),
    ),
    "writes half a message": (
        "for one in range(3, 64):\n    try: os.write(one, struct.pack('!i', 1000) + b'half')\n    except OSError: pass",
        (FAILS,),
    ),
    "writes a pickle to descriptors": (
        EVIL + to_descriptors("struct.pack('!i', len(crafted)) + crafted"),
        (FAILS,),
    ),
    "writes a pickle to its heart and dies": (
        "class Evil:\n    def __reduce__(self): return os.system, (f'touch {os.getcwd()}/owned',)\n"
        "crafted = pickle.dumps(('fill_bonus_tokens', Evil()))\n"
        "for one in range(3, 64):\n    try: os.pwrite(one, struct.pack('<QQQQ', 9, 9, 1, len(crafted)) + crafted, 0)\n"
        "    except OSError: pass\nos.abort()",
        FAILS,
    ),
    "writes a huge length to its heart and dies": (
        "for one in range(3, 64):\n    try: os.pwrite(one, struct.pack('<QQQQ', 9, 9, 1, 1 << 40), 0)\n"
        "    except OSError: pass\n    try: os.ftruncate(one, 1 << 41)\n"
        "    except OSError: pass\nos.abort()",
        FAILS,
    ),
    "makes its heart small": (
        "for one in range(3, 64):\n    try: os.ftruncate(one, 0)\n    except OSError: pass",
        (CONFORMS, FAILS),
    ),
    "forks and both go on": ("os.fork()", (CONFORMS, FAILS)),
    "leaves a child": ("subprocess.Popen(['sleep', '1000'])", CONFORMS),
    "leaves a daemon": ("subprocess.Popen(['sleep', '1000'], start_new_session=True)", CONFORMS),
    "leaves a daemon and dies": ("subprocess.Popen(['sleep', '1000'], start_new_session=True)\nos.abort()", FAILS),
    "changes the folder": ("os.chdir('/')", CONFORMS),
    "removes the folder": (
        "import tempfile\ngone = tempfile.mkdtemp()\nos.chdir(gone)\nos.rmdir(gone)",
        CONFORMS,
    ),
    "kills its parent": ("os.kill(os.getppid(), signal.SIGKILL)", (FAILS, INCONCLUSIVE)),
    "writes to its arguments": ("accept_tokens[...] = 0", FAILS),
    "makes its arguments small": ("accept_tokens.resize(0, refcheck=False)", FAILS),
    "changes the shape of its arguments": ("accept_tokens.shape = (-1,)", FAILS),
    "changes the type of its arguments": ("accept_tokens.dtype = np.int16", FAILS),
    "locks its arguments": ("accept_tokens.flags.writeable = False", (CONFORMS, FAILS)),
    "changes the caller": ("sys._getframe(1).f_locals.clear()", CONFORMS),
    "is slow": ("time.sleep(0.3)", CONFORMS),
    "ends other threads badly": ("threading.Thread(target=lambda: 1 / 0).start()", CONFORMS),
    "patches the sum": ("np.sum = None", (CONFORMS, FAILS)),
    "patches equality": ("np.array_equal = lambda *_, **__: True", CONFORMS),
}

ANSWERS = {
    "nothing": ("None", FAILS),
    "a number": ("7", FAILS),
    "a text": ("'no'", FAILS),
    "a list": ("found.tolist()", FAILS),
    "a tuple": ("(found,)", (CONFORMS, FAILS)),
    "two": ("(found, found)", FAILS),
    "a dictionary": ("{'bonus_tokens': found}", FAILS),
    "a generator": ("(one for one in found)", FAILS),
    "itself": ("fill_bonus_tokens", FAILS),
    "an array of objects": ("found.astype(object)", FAILS),
    "an array of texts": ("found.astype(str)", FAILS),
    "complex numbers": ("found.astype(complex)", FAILS),
    "dates": ("found.astype('datetime64[s]')", FAILS),
    "records": ("np.zeros(len(found), [('a', int)])", FAILS),
    "another type": ("found.astype(np.int64)", FAILS),
    "another order of bytes": ("found.astype('>i4')", FAILS),
    "another shape": ("found[None]", FAILS),
    "too few": ("found[:0]", FAILS),
    "too many": ("np.concatenate([found, found])", FAILS),
    "a broadcast": ("np.broadcast_to(np.int32(0), (1 << 40,))", FAILS),
    "not a number": ("np.full(found.shape, np.nan, np.float32)", FAILS),
    "one off": ("found + np.int32(1)", FAILS),
    "a matrix": ("np.matrix(found)", FAILS),
    "a masked array": ("np.ma.masked_array(found, mask=True)", FAILS),
    "a subclass that lies": (
        "found.view(type('Lie', (np.ndarray,), {'__eq__': lambda *_: True, '__array_ufunc__': None}))",
        (CONFORMS, FAILS),
    ),
    "an object that becomes an array": ("type('Odd', (), {'__array__': lambda self, *_, **__: found})()", CONFORMS),
    "an object that becomes another array": (
        "type('Odd', (), {'__array__': lambda self, *_, **__: found.astype(np.int64)})()",
        FAILS,
    ),
    "an object that raises when it becomes an array": (
        "type('Odd', (), {'__array__': lambda self, *_, **__: 1 / 0})()",
        FAILS,
    ),
    "an object with odd attributes": (
        "type('Odd', (), {'__getattr__': lambda self, name: self, '__call__': lambda self, *_: self})()",
        FAILS,
    ),
    "an object that raises when asked": ("type('Odd', (), {'__getattribute__': lambda self, name: 1 / 0})()", FAILS),
    "an argument": ("accept_tokens", FAILS),
    "a view of an argument": ("accept_tokens[:, 0]", FAILS),
    "a float": ("found.astype(np.float32)", FAILS),
    "truth values": ("found.astype(bool)", FAILS),
}

WHOLE = {
    "is empty": ("", (NOTHING,)),
    "has no function": ("fill_bonus_tokens = 7\n", (FAILS, USAGE, UNAVAILABLE, NOTHING)),
    "has a class": (HEAD + "class fill_bonus_tokens:\n    pass\n", FAILS),
    "takes nothing": ("def fill_bonus_tokens():\n    pass\n", FAILS),
    "takes anything": (
        HEAD + "def fill_bonus_tokens(**given):\n    return reference.fill_bonus_tokens(**given)\n",
        CONFORMS,
    ),
    "takes arguments by place": (
        HEAD + "def fill_bonus_tokens(a, b, /):\n    return reference.fill_bonus_tokens(a, b)\n",
        (CONFORMS, FAILS),
    ),
    "is a coroutine": (HEAD + f"async {DEFINED}    return {CALL}\n", FAILS),
    "is a generator": (HEAD + f"{DEFINED}    yield {CALL}\n", FAILS),
    "is cached wrongly": (
        HEAD
        + f"{DEFINED}    global kept\n    try: return kept\n    except NameError: kept = {CALL}\n    return kept\n",
        (CONFORMS, FAILS),
    ),
    "answers any name": (HEAD + "def __getattr__(name):\n    return right\n", (CONFORMS, FAILS, NOTHING, UNAVAILABLE)),
    "raises for any name": (
        HEAD + f"def __getattr__(name):\n    raise RuntimeError(name)\n{DEFINED}    return {CALL}\n",
        (CONFORMS, UNAVAILABLE),
    ),
    "hangs for any name": (
        HEAD + f"def __getattr__(name):\n    time.sleep(1000)\n{DEFINED}    return {CALL}\n",
        (CONFORMS, UNAVAILABLE),
    ),
    "has limits of no kind": (at_import("LIMITS = 7"), USAGE),
    "has limits of no operation": (at_import("LIMITS = {'no_operation': {}}"), USAGE),
    "has limits of an odd name": (at_import(f"LIMITS = {{{ESCAPES}: {{}}}}"), USAGE),
    "has limits of a huge name": (at_import(f"LIMITS = {{{HUGE}: {{}}}}"), USAGE),
    "has impossible limits": (
        at_import("LIMITS = {'fill_bonus_tokens': {'request': (1_000_000_000, 2_000_000_000)}}"),
        USAGE,
    ),
    "has limits the wrong way": (at_import("LIMITS = {'fill_bonus_tokens': {'request': (5, 2)}}"), USAGE),
    "has limits that raise": (
        at_import(
            "from collections import UserDict\n"
            "class Odd(UserDict):\n    def items(self): raise RuntimeError('no')\nLIMITS = Odd()"
        ),
        (USAGE, UNAVAILABLE),
    ),
    "has a switch of no kind": (at_import("EMPTY = 'no'"), USAGE),
    "has arrays of no kind": (at_import("ARRAYS = 'cupy'"), (USAGE, UNAVAILABLE)),
    "has arrays that raise": (
        at_import(
            "class Odd:\n    def __eq__(self, other): raise RuntimeError('no')\n    __hash__ = None\nARRAYS = Odd()"
        ),
        (USAGE, UNAVAILABLE),
    ),
    "has odd remarks": (at_import("REMARKS = 7"), (CONFORMS, USAGE, UNAVAILABLE)),
    "has remarks of escape sequences": (at_import(f"REMARKS = ({ESCAPES},)"), CONFORMS),
    "has huge remarks": (at_import(f"REMARKS = ({HUGE},)"), CONFORMS),
    "has an odd version": (at_import("VERSION = object()"), CONFORMS),
    "has a version that raises": (
        at_import("class Odd:\n    def __str__(self): raise RuntimeError('no')\nVERSION = Odd()"),
        (CONFORMS, USAGE, UNAVAILABLE),
    ),
    "has a worker that is none": (at_import("WORKER = 7"), (CONFORMS, FAILS, INCONCLUSIVE, USAGE, UNAVAILABLE)),
    "has workers that are none": (at_import("WORKERS = 7"), (CONFORMS, FAILS, INCONCLUSIVE, USAGE, UNAVAILABLE)),
    "has workers of odd names": (
        at_import("WORKERS = {7: None, 'EAGLE': 3}"),
        (CONFORMS, FAILS, INCONCLUSIVE, USAGE, UNAVAILABLE),
    ),
    "has a worker that raises": (
        at_import("def WORKER(*_, **__): raise ValueError('no')"),
        (CONFORMS, FAILS, INCONCLUSIVE, USAGE, UNAVAILABLE),
    ),
}


def _codes(given: int | tuple[int, ...]) -> tuple[int, ...]:
    return given if isinstance(given, tuple) else (given,)


HOSTILE = [
    *(Hostile(f"{name} at import", at_import(lines), _codes(codes)) for name, (lines, codes) in AT_IMPORT.items()),
    *(Hostile(f"{name} in a call", in_a_call(lines), _codes(codes)) for name, (lines, codes) in IN_A_CALL.items()),
    *(Hostile(f"answers {name}", as_answer(answer), _codes(codes)) for name, (answer, codes) in ANSWERS.items()),
    *(Hostile(name, source, _codes(codes)) for name, (source, codes) in WHOLE.items()),
]
