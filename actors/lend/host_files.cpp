#include "actors/lend/host_files.hpp"

#include "actors/lend/program_files.hpp"

#include <unistd.h>

namespace vgpu {

result<unique_fd> host_files::open(const call::host_file& what) const {
  const program_file named{what.process, what.control, what.file};
  return opener_ ? ask_program_file(opener_.get(), named)
                 : open_program_file(named, area_->control_fd(),
                                     {::getpid(), client_});
}

status host_files::show(const call::host_file& what) {
  auto file = open(what);
  if (!file)
    return file.why();
  if (auto ok =
          area_->show_file(what.address, what.bytes, file->get(), what.offset);
      !ok)
    return ok;
  shown_[what.address] = what.bytes;
  return {};
}

status host_files::hide(device_address address, std::uint64_t bytes) {
  auto known = shown_.find(address);
  if (known == shown_.end() || known->second != bytes)
    return {};
  shown_.erase(known);
  return area_->show_own(address, bytes);
}

} // namespace vgpu
