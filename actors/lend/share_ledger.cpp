#include "actors/lend/share_ledger.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>

namespace vgpu {

namespace {

// An entry is one byte of the empty file, for "has", and a second byte from
// counts_from on, for "counts".
constexpr off_t counts_from = off_t{1} << 62;

fault no_ledger(const char* what) {
  return {fault_kind::system, std::string{what} + ": " + std::strerror(errno)};
}

struct flock lock_of(short type, off_t from, off_t bytes) {
  struct flock out {};
  out.l_type = type;
  out.l_whence = SEEK_SET;
  out.l_start = from;
  out.l_len = bytes;
  return out;
}

off_t place_of(std::uint64_t entry) {
  return static_cast<off_t>(entry);
}

} // namespace

result<share_ledger> share_ledger::open() {
  unique_fd file{::memfd_create("vgpu-share-ledger", MFD_CLOEXEC)};
  if (!file)
    return no_ledger("cannot make the file of locks for shared memory");
  auto all = lock_of(F_WRLCK, counts_from, 0);
  if (::fcntl(file.get(), F_OFD_SETLK, &all) != 0)
    return no_ledger("cannot lock the count of shared memory");
  return share_ledger{std::move(file)};
}

/// Opens the file again for the entry, because locks belong to an open file
/// description, and a duplicate descriptor would share the lender's.
result<unique_fd> share_ledger::enter(std::uint64_t entry) const {
  auto name = "/proc/self/fd/" + std::to_string(file_.get());
  unique_fd out{::open(name.c_str(), O_RDWR | O_CLOEXEC)};
  auto has = lock_of(F_RDLCK, place_of(entry), 1);
  if (!out || ::fcntl(out.get(), F_OFD_SETLK, &has) != 0)
    return no_ledger("cannot enter a borrower of shared memory");
  return out;
}

bool share_ledger::is_had(std::uint64_t entry) const noexcept {
  auto nobody = lock_of(F_WRLCK, place_of(entry), 1);
  return ::fcntl(file_.get(), F_OFD_GETLK, &nobody) != 0 ||
         nobody.l_type != F_UNLCK;
}

bool share_stake::take_over() noexcept {
  auto counts = lock_of(F_WRLCK, counts_from + place_of(entry_), 1);
  return ::fcntl(file_.get(), F_OFD_SETLK, &counts) == 0;
}

} // namespace vgpu
