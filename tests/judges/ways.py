"""The ways in which a judge's programs run: natively, and on vGPUs."""

import os

WAYS = ("native", "mapped", "forwarded")


def add_options(parser, default):
    """Adds the options that name the ways and the vgpu command."""
    parser.add_argument("--ways", default=default,
                        help=f"a list of native, mapped and forwarded ({default})")
    parser.add_argument("--vgpu", default="build/default/bin/vgpu", help="the command")
    parser.add_argument("--manager", action="append", default=[], metavar="WAY=ADDRESS",
                        help="the manager of a way, where it is not VGPU_MANAGER")
    parser.add_argument("--run-options", default="",
                        help="options of `vgpu run`, such as '--gpus 2'")


def read_options(parser, chosen):
    """Replaces the texts of these options by what they mean."""
    chosen.ways = chosen.ways.split(",")
    for way in chosen.ways:
        if way not in WAYS:
            parser.error(f"--ways: there is no way '{way}'; choose from {', '.join(WAYS)}")
    chosen.manager = dict(part.split("=", 1) for part in chosen.manager)


def environment(chosen, way):
    """Returns the caller's environment, with nothing of it that would choose a way."""
    out = {key: value for key, value in os.environ.items()
           if not key.startswith("VGPU_") or key == "VGPU_MANAGER"
           or key.startswith("VGPU_NVIDIA_")}
    if way != "native":
        out["VGPU_TRANSPORT"] = way
    if way in chosen.manager:
        out["VGPU_MANAGER"] = chosen.manager[way]
    return out


def command(chosen, way, line):
    """Returns the command line that runs this one."""
    if way == "native":
        return line
    return [os.path.abspath(chosen.vgpu), "run", *chosen.run_options.split(), "--", *line]
