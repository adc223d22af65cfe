#pragma once
// The standard streams of a program: held open from its start, and found written at its end.

#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

namespace shmoe::apps {

/// A closed standard stream becomes an empty one that cannot be written, lest a file of the job take its number.
inline void hold_standard_streams() {
  int fd = STDIN_FILENO;
  while (fd >= STDIN_FILENO && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDONLY);
  if (fd > STDERR_FILENO) ::close(fd);
}

/// Whether all that was printed could be written.
inline bool standard_output_is_written() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

}  // namespace shmoe::apps
