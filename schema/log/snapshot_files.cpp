#include "schema/log/snapshot_files.hpp"

#include "schema/base/own_environment.hpp"

#include <algorithm>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vgpu {

namespace {

unique_fd nameless_file(const std::string& folder) {
  unique_fd file{
      ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600)};
  if (file)
    return file;
  // Some file systems do not support O_TMPFILE. There the name is removed at
  // once.
  auto path = folder + "/vgpu-snapshot-XXXXXX";
  unique_fd named{::mkostemp(path.data(), O_CLOEXEC)};
  if (named)
    ::unlink(path.c_str());
  return named;
}

/// Returns whether it is a plain file. A process that reads another kind of
/// descriptor may block without end.
bool is_plain_file(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

} // namespace

state_places state_places::create(const std::string& folder) {
  state_places out;
  for (std::size_t i : {0u, 1u})
    out.files_[i] = unique_fd{
        static_cast<int>(::memfd_create("vgpu-snapshot", MFD_CLOEXEC))};
  for (std::size_t i : {2u, 3u})
    if (out.in_memory())
      out.files_[i] = nameless_file(folder);
  return out;
}

state_places state_places::take(std::vector<unique_fd>& from,
                                std::size_t first) {
  state_places out;
  for (std::size_t i = 0; i < count && first + i + 1 < from.size(); i += 2) {
    if (!is_plain_file(from[first + i].get()) ||
        !is_plain_file(from[first + i + 1].get()))
      break;
    out.files_[i] = std::move(from[first + i]);
    out.files_[i + 1] = std::move(from[first + i + 1]);
  }
  return out;
}

std::vector<int> state_places::descriptors() const {
  std::vector<int> out;
  for (std::size_t i = 0; i < files_.size(); i += 2)
    if (files_[i] && files_[i + 1]) {
      out.push_back(files_[i].get());
      out.push_back(files_[i + 1].get());
    }
  return out;
}

std::string state_folder() {
  const auto* folder = setting("VGPU_STATE_DIR");
  return folder == nullptr || *folder == '\0' ? "/var/tmp" : folder;
}

} // namespace vgpu
