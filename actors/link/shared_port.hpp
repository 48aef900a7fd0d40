// A second listening socket at the port of a first one.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

namespace vgpu {

/// Opens another socket that listens where the TCP socket `listening` does.
/// From now on each connection reaches one of the two, by chance, and only
/// processes of this user can listen there, too. Fails where the kernel does
/// not let two sockets listen at one port.
result<unique_fd> listen_beside(int listening);

} // namespace vgpu
