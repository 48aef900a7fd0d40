"""Makes a libcuda.so.1 that writes down each call; see README.md."""

import argparse
import pathlib
import subprocess

# These return addresses of other entry points. tracer.c defines them.
OWN = ("cuGetProcAddress", "cuGetProcAddress_v2", "cuGetExportTable")
TABLES, SLOTS = 24, 128
# The answers of these are logged too. They take no more words than a slot's
# stub passes.
ASKING = ("cuOccupancy", "cuFuncGet", "cuKernelGet", "cuDeviceGet", "cuCtxGet",
          "cuPointerGet", "cuMemGet", "cuStreamGet")

# Saves the argument registers, asks trace_enter() for the target, and jumps
# there.
STUB = """
.globl {label}
.type {label},@function
{label}:
 push rbp
 mov rbp, rsp
 push rdi
 push rsi
 push rdx
 push rcx
 push r8
 push r9
 sub rsp, 32
 movups [rsp], xmm0
 movups [rsp+16], xmm1
 mov edi, {number}
 lea rsi, [rbp-48]
 lea rdx, [rbp+16]
 call trace_enter@PLT
 mov r11, rax
 movups xmm0, [rsp]
 movups xmm1, [rsp+16]
 add rsp, 32
 pop r9
 pop r8
 pop rcx
 pop rdx
 pop rsi
 pop rdi
 pop rbp
 jmp r11
"""

SLOT = """
.type {label},@function
{label}:
 mov eax, {number}
 jmp slot_call
"""

# Calls the real slot with four words of the stack, and then logs its answer.
SLOT_CALL = """
slot_call:
 push rbp
 mov rbp, rsp
 push rbx
 push r12
 sub rsp, 48
 mov [rsp], rdi
 mov [rsp+8], rsi
 mov [rsp+16], rdx
 mov [rsp+24], rcx
 mov [rsp+32], r8
 mov [rsp+40], r9
 mov ebx, eax
 mov r12, rsp
 mov edi, eax
 call trace_slot@PLT
 mov r11, rax
 mov rdi, [r12]
 mov rsi, [r12+8]
 mov rdx, [r12+16]
 mov rcx, [r12+24]
 mov r8, [r12+32]
 mov r9, [r12+40]
 push [rbp+40]
 push [rbp+32]
 push [rbp+24]
 push [rbp+16]
 call r11
 add rsp, 32
 push rax
 push rdx
 mov edi, ebx
 mov rsi, r12
 mov rdx, rax
 call trace_slot_done@PLT
 pop rdx
 pop rax
 lea rsp, [rbp-16]
 pop r12
 pop rbx
 pop rbp
 ret
"""


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    names = {line.split()[-1].split("@")[0] for line in lines}
    return sorted(x for x in names if x.startswith("cu"))


def label(name):
    return f"traced_{name}" if name in OWN else name


def stub(name, number):
    if name.startswith(ASKING):
        return f".globl {name}\n" + SLOT.format(label=name,
                                               number=TABLES * SLOTS + number)
    return STUB.format(label=label(name), number=number)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="where it is put")
    parser.add_argument("--real", required=True,
                        help="a libcuda.so.1 that exports what is to be traced")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    names = exported(asked.real)
    slots = range(TABLES * SLOTS)
    stubs = asked.folder / "stubs.S"
    stubs.write_text("".join([
        ".intel_syntax noprefix\n.text\n",
        *(stub(x, i) for i, x in enumerate(names)),
        *(SLOT.format(label=f"slot_{i}", number=i) for i in slots), SLOT_CALL,
        ".section .data.rel.local,\"aw\"\n.globl trace_slots\ntrace_slots:\n",
        *(f" .quad slot_{i}\n" for i in slots),
        ".section .note.GNU-stack,\"\",@progbits\n"]))
    (asked.folder / "names.inc").write_text(
        "".join(f'X({x}, {label(x)})\n' for x in names))
    here = pathlib.Path(__file__).parent
    subprocess.run(
        ["gcc", "-O1", "-g", "-Wall", "-shared", "-fPIC", f"-DTABLES={TABLES}",
         f"-DSLOTS={SLOTS}", f"-I{asked.folder}", here / "tracer.c", stubs,
         "-ldl", "-Wl,-soname,libcuda.so.1", "-o",
         asked.folder / "libcuda.so.1"], check=True)


if __name__ == "__main__":
    main()
