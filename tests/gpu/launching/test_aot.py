import os
import subprocess
import sys

from specsim.gpu.launching.aot import all_kernels, all_signatures


def test_every_kernel_has_a_signature_and_every_signature_a_kernel():
    assert set(all_signatures()) == set(all_kernels())


def test_every_signature_names_every_argument():
    signatures = all_signatures()
    for name, kernel in all_kernels().items():
        for variant in signatures[name]:
            assert {*variant.types, *variant.constants} == set(kernel.arg_names), name


def test_every_kernel_compiles_for_every_target():
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-m", "specsim.gpu.launching.aot"]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr[-2000:]
    compiled = {tuple(line.split()[:2]) for line in finished.stdout.splitlines()}
    expected = {
        (f"{name}[{variant}]", f"sm_{target}")
        for name, variants in all_signatures().items()
        for variant in range(len(variants))
        for target in (80, 90, 100)
    }
    assert compiled == expected
