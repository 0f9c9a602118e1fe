// A TCP connection between two processes, or the place where one waits for such.
//
// One thread may send while another receives. What a socket waits for ends at a deadline, or when shut_down() is called
// by any thread. In a process that is forked off the sockets are closed: a connection ends with the process that made
// it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace mydev::transport {

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

class Socket {
 public:
  Socket() noexcept;
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  // At an address of this host, by number or by name, on a port that is free. Raises INVALID_ARGUMENT for an address
  // that this host does not have.
  static Socket listen_on(const std::string& address);
  uint16_t port() const;
  // Raises UNAVAILABLE where nobody listens, DEADLINE_EXCEEDED.
  static Socket connect_to(const std::string& address, uint16_t port, Deadline deadline);
  // The next one that connects. Raises DEADLINE_EXCEEDED.
  Socket accept(Deadline deadline) const;

  // All of the bytes. Raise UNAVAILABLE where the other side is gone, DEADLINE_EXCEEDED.
  void send(std::span<const std::byte> bytes, Deadline deadline) const;
  void receive(std::span<std::byte> bytes, Deadline deadline) const;
  void shut_down() const noexcept;
  // The other side has what was sent, and learns that there is no more.
  void stop_sending() const noexcept;

 private:
  struct Handle;
  explicit Socket(int descriptor);
  void wait_for(short events, Deadline deadline) const;

  std::unique_ptr<Handle> handle_;
};

}  // namespace mydev::transport
