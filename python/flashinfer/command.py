# SPDX-License-Identifier: Apache-2.0
"""The command ``flashinfer``: hands over to the program of the same name in the package."""
import os
import sys

from ._binding import library_folders


def program():
    """The path of the program, beside the libraries."""
    places = [folder.parent / "bin" / "flashinfer" for folder in library_folders()]
    for place in places:
        if place.exists():
            return place
    raise FileNotFoundError("the program flashinfer is in none of: "
                            + ", ".join(str(place) for place in places))


def run_program(*arguments, accepted=(0,)):
    """What the program prints for `arguments`; raises RuntimeError with its message when it ends
    with another status than `accepted`."""
    import subprocess

    done = subprocess.run([str(program()), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode not in accepted:
        raise RuntimeError(done.stderr.strip() or f"flashinfer ended with {done.returncode}")
    return done.stdout


def main():
    """Becomes the command line program, with the arguments of this process."""
    path = str(program())
    os.execv(path, ["flashinfer", *sys.argv[1:]])


if __name__ == "__main__":
    main()
