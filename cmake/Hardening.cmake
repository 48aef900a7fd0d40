# What makes a fault in a program harder to use: position-independent programs,
# addresses that are bound at the start and read-only afterwards, guarded stacks,
# and checked calls of the C library. checks.hardening reads the results. Targets of
# indirect jumps are not marked (-fcf-protection): the loader heeds marks only where all
# parts of a program have them, and Debian 12's start files have none.
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX C)

add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
# The sanitizers guard stacks and check calls by themselves. GCC 12's stack protector
# also takes the alignment from variables that its address sanitizer has moved.
if(NOT VGPU_SANITIZE)
  set(hardened -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  foreach(option IN LISTS hardened)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:${option}>)
  endforeach()
endif()
