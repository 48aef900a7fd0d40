// The stubs of make.py call this file, which writes a line for each driver
// call.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define X(name, label) extern void label(void);
#include "names.inc"
#undef X

#define X(name, label) {#name, label, NULL},
static struct {
  const char* name;
  void (*stub)(void);
  void* real;
} calls[] = {
#include "names.inc"
};
#undef X
enum { all = sizeof(calls) / sizeof(*calls) };

extern void* trace_slots[];
static void* copies[TABLES][SLOTS];
static struct {
  void* real;
  char id[33];
} tables[TABLES];
static int table_count;

static void* driver;
static int out = -1;
static __thread int inside;
static int (*function_name)(const char**, void*);
static int (*kernel_name)(const char**, void*);

__attribute__((constructor)) static void begin(void) {
  if (driver != NULL)
    return;
  const char* path = getenv("TRACE_REAL");
  const char* to = getenv("TRACE_OUT");
  driver = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (to != NULL)
    out = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (driver == NULL || out < 0) {
    fprintf(stderr, "tracer: TRACE_REAL=%s TRACE_OUT=%s: %s\n",
            path == NULL ? "" : path, to == NULL ? "" : to,
            driver == NULL && path != NULL ? dlerror() : "cannot be opened");
    _exit(2);
  }
  for (int i = 0; i < all; ++i)
    calls[i].real = dlsym(driver, calls[i].name);
  function_name = dlsym(driver, "cuFuncGetName");
  kernel_name = dlsym(driver, "cuKernelGetName");
}

static void say(const char* text, int bytes) {
  if (write(out, text, (size_t)bytes) < 0)
    _exit(2);
}

static const char* name_of(void* kernel) {
  const char* name = "?";
  if (function_name(&name, kernel) != 0)
    (void)kernel_name(&name, kernel);
  return name;
}

// Has the layout of the driver API's CUlaunchConfig.
struct config {
  unsigned grid[3], block[3], shared;
  void* stream;
  const unsigned* attributes; // 72 bytes each: a name and its value
  unsigned count;
};

static int describe(char* to, int most, const struct config* x) {
  int n = snprintf(to, (size_t)most, "grid %u %u %u block %u %u %u shared %u",
                   x->grid[0], x->grid[1], x->grid[2], x->block[0], x->block[1],
                   x->block[2], x->shared);
  for (unsigned i = 0; i < x->count && i < 8; ++i) {
    const unsigned* a = x->attributes + 18 * i;
    n += snprintf(to + n, (size_t)(most - n), " [%u: %u %u %u]", a[0], a[2],
                  a[3], a[4]);
  }
  return n;
}

// `words` holds the argument registers, the first argument last.
void* trace_enter(int which, const uint64_t* words, const uint64_t* stack) {
  begin();
  const char* name = calls[which].name;
  if (inside)
    return calls[which].real;
  inside = 1;
  char line[1024];
  int n;
  if (strncmp(name, "cuLaunchKernelEx", 16) == 0) {
    n = snprintf(line, sizeof(line), "launch %.200s ",
                 name_of((void*)words[4]));
    n += describe(line + n, 512, (const struct config*)words[5]);
    line[n++] = '\n';
  } else if (strncmp(name, "cuLaunchKernel", 14) == 0) {
    n = snprintf(line, sizeof(line),
                 "launch %.200s grid %u %u %u block %u %u %u shared %u\n",
                 name_of((void*)words[5]), (unsigned)words[4],
                 (unsigned)words[3], (unsigned)words[2], (unsigned)words[1],
                 (unsigned)words[0], (unsigned)stack[0], (unsigned)stack[1]);
  } else {
    n = snprintf(line, sizeof(line), "%s %lx %lx %lx %lx\n", name, words[5],
                 words[4], words[3], words[2]);
  }
  say(line, n);
  inside = 0;
  return calls[which].real;
}

int cuGetProcAddress(const char*, void**, int, uint64_t);
int cuGetProcAddress_v2(const char*, void**, int, uint64_t, void*);
int cuGetExportTable(void**, const unsigned char*);

// Replaces the driver's entry points by ours.
static void replace(const char* name, int version, void** at) {
  if (at == NULL)
    return;
  if (*at == NULL) {
    char line[256];
    say(line, snprintf(line, sizeof(line), "null %.200s %d\n", name, version));
    return;
  }
  static const struct {
    const char* name;
    void* own;
  } own[] = {{"cuGetProcAddress", cuGetProcAddress},
             {"cuGetProcAddress_v2", cuGetProcAddress_v2},
             {"cuGetExportTable", cuGetExportTable}};
  for (int i = 0; i < all; ++i) {
    if (calls[i].real != *at)
      continue;
    *at = (void*)calls[i].stub;
    for (int k = 0; k < 3; ++k)
      if (strcmp(calls[i].name, own[k].name) == 0)
        *at = own[k].own;
    return;
  }
}

int cuGetProcAddress(const char* name, void** at, int version, uint64_t flags) {
  begin();
  int (*real)(const char*, void**, int, uint64_t) =
      dlsym(driver, "cuGetProcAddress");
  int code = real(name, at, version, flags);
  replace(name, version, at);
  return code;
}

int cuGetProcAddress_v2(const char* name, void** at, int version,
                        uint64_t flags, void* status) {
  begin();
  int (*real)(const char*, void**, int, uint64_t, void*) =
      dlsym(driver, "cuGetProcAddress_v2");
  int code = real(name, at, version, flags, status);
  replace(name, version, at);
  return code;
}

// -- export tables

static int hex(char* to, const unsigned char* from, int bytes) {
  for (int i = 0; i < bytes; ++i)
    sprintf(to + 2 * i, "%02x", from[i]);
  return 2 * bytes;
}

static int is_the_runtimes(const char* id) {
  static const char* runtime[] = {"f8cff951", "6bd5fb6c", "a094798c",
                                  "42d85a81", "c693336e", "263e8860",
                                  "d4082055"};
  for (int i = 0; i < 7; ++i)
    if (strncmp(id, runtime[i], 8) == 0)
      return 1;
  return 0;
}

int cuGetExportTable(void** table, const unsigned char* uuid) {
  begin();
  int (*real)(void**, const void*) = dlsym(driver, "cuGetExportTable");
  int code = real(table, uuid);
  char id[33], line[512];
  hex(id, uuid, 16);
  Dl_info who = {0};
  (void)dladdr(__builtin_return_address(0), &who);
  say(line, snprintf(line, sizeof(line), "table %s -> %d by %.300s\n", id, code,
                     who.dli_fname == NULL ? "?" : who.dli_fname));
  if (code != 0 || *table == NULL || is_the_runtimes(id))
    return code;
  void** slots = *table;
  long count = (long)slots[0] / 8; // their size in bytes comes first
  if (count < 1 || count > SLOTS)
    return code;
  int k = 0;
  while (k < table_count && tables[k].real != slots)
    ++k;
  if (k == TABLES)
    return code;
  if (k == table_count) {
    tables[k].real = slots;
    strcpy(tables[k].id, id);
    copies[k][0] = slots[0];
    for (long i = 1; i < count; ++i)
      copies[k][i] = slots[i] == NULL ? NULL : trace_slots[k * SLOTS + i];
    ++table_count;
  }
  *table = copies[k];
  return code;
}

void* trace_slot(int which) {
  begin();
  if (which >= TABLES * SLOTS)
    return calls[which - TABLES * SLOTS].real;
  return ((void**)tables[which / SLOTS].real)[which % SLOTS];
}

// Reads memory through the kernel, which checks whether the address is mapped.
static int peek(void* to, uint64_t from, size_t bytes) {
  struct iovec local = {to, bytes}, remote = {(void*)from, bytes};
  return from > 4096 &&
         process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (long)bytes;
}

// Logs the answer of a call that writes it to the address in its first word.
static void tell_answer(const char* name, const uint64_t* words,
                        uint64_t code) {
  if (inside)
    return;
  inside = 1;
  char line[1024];
  uint64_t answer = 0;
  int there = peek(&answer, words[0], sizeof(answer));
  int n = snprintf(line, 512, "%s %lx %lx %lx = %u", name, words[1], words[2],
                   words[3], (unsigned)code);
  if (there)
    n += snprintf(line + n, 32, " -> %lx", answer);
  if (strstr(name, "Cluster") != NULL && words[2] != 0) {
    n += snprintf(line + n, 256, " of %.200s ", name_of((void*)words[1]));
    n += describe(line + n, 512, (const struct config*)words[2]);
  }
  line[n++] = '\n';
  say(line, n);
  inside = 0;
}

void trace_slot_done(int which, const uint64_t* words, uint64_t code) {
  if (which >= TABLES * SLOTS) {
    tell_answer(calls[which - TABLES * SLOTS].name, words, code);
    return;
  }
  char line[2048];
  int n = snprintf(line, 512, "slot %s[%d] (%lx %lx %lx %lx) = %lx",
                   tables[which / SLOTS].id, which % SLOTS, words[0], words[1],
                   words[2], words[3], code);
  for (int i = 0; i < 3; ++i) {
    uint64_t there[2];
    unsigned char beyond[128];
    if (!peek(there, words[i], sizeof(there)))
      continue;
    n += snprintf(line + n, 128, " -> %d: %lx %lx", i, there[0], there[1]);
    if (!peek(beyond, there[0], sizeof(beyond)))
      continue;
    n += snprintf(line + n, 16, " -> ");
    n += hex(line + n, beyond, sizeof(beyond));
  }
  line[n++] = '\n';
  say(line, n);
}
