// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/socket_probe.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "client/cli/spawn/private_directory.h"

namespace spin::cli {
namespace {

class SocketProbeTest : public ::testing::Test {
 protected:
  SocketProbeTest() : directory_(*PrivateDirectory::Create()), path_(directory_->path() + "/s") {}

  // Binds the path; the caller closes the descriptor.
  int Bind() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  std::unique_ptr<PrivateDirectory> directory_;
  std::string path_;
};

TEST_F(SocketProbeTest, TellsWhatIsWrongWithTheSocket) {
  EXPECT_EQ(ProbeSocket(std::string(108, 'x')).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ProbeSocket(path_).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ProbeSocket(directory_->path()).code(), absl::StatusCode::kFailedPrecondition);
  const int fd = Bind();
  EXPECT_EQ(ProbeSocket(path_).code(), absl::StatusCode::kUnavailable);
  listen(fd, 1);
  EXPECT_TRUE(ProbeSocket(path_).ok());
  close(fd);
}

TEST_F(SocketProbeTest, SeesAServerThatClosesAtOnce) {
  const int fd = Bind();
  listen(fd, 1);
  std::thread server([fd] { close(accept(fd, nullptr, nullptr)); });
  EXPECT_TRUE(ClosesAtOnce(path_));
  server.join();
  close(fd);
}

TEST_F(SocketProbeTest, TheFlagComesBeforeTheVariableBeforeTheDefault) {
  unsetenv("SPIN_SOCKET");
  EXPECT_EQ(SocketOrDefault(""), "/run/spin/spind.sock");
  setenv("SPIN_SOCKET", "/variable", 1);
  EXPECT_EQ(SocketOrDefault(""), "/variable");
  EXPECT_EQ(SocketOrDefault("/flag"), "/flag");
  unsetenv("SPIN_SOCKET");
}

}  // namespace
}  // namespace spin::cli
