// A TCP connection between two processes, or a listening socket that waits for connections.
//
// One thread may send while another receives. A wait of a socket ends at a deadline, or when any thread calls
// shut_down(). In a process that is forked off the sockets are closed: a connection ends with the process that made it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/api.h"

namespace mydev::transport {

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

class MYDEV_API Socket {
 public:
  Socket() noexcept;
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  // Listens at an address of this host, by number or by name, on a port that is free. Raises INVALID_ARGUMENT for an
  // address that this host does not have.
  static Socket listen_on(const std::string& address);
  uint16_t port() const;
  // Raises UNAVAILABLE if nobody listens, DEADLINE_EXCEEDED.
  static Socket connect_to(const std::string& address, uint16_t port, Deadline deadline);
  // Waits for the next connection. Raises DEADLINE_EXCEEDED.
  Socket accept(Deadline deadline) const;

  // Send or receive all of the bytes. Raise UNAVAILABLE if the other side is gone, DEADLINE_EXCEEDED.
  void send(std::span<const std::byte> bytes, Deadline deadline) const;
  void receive(std::span<std::byte> bytes, Deadline deadline) const;
  void shut_down() const noexcept;
  // Ends sending: the other side gets what was sent, and learns that there is no more.
  void stop_sending() const noexcept;

 private:
  struct Handle;
  explicit Socket(int descriptor);
  void wait_for(short events, Deadline deadline) const;

  std::unique_ptr<Handle> handle_;
};

}  // namespace mydev::transport
