// A web server on loopback, within the test, that answers as the test says. Each connection has a thread.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

class RangeServer {
 public:
  struct Request {
    std::size_t number = 0;  // from 0
    std::string path{};      // without the leading "/"
    std::uint64_t begin = 0, end = 0;
  };
  struct Reply {
    int status = 206;  // 200: the whole file, though a range was asked for
    std::string header{};
    std::uint64_t most = UINT64_MAX;  // bytes after which the connection is closed
    bool stalls = false;              // where it would be closed, nothing more comes instead
  };
  using Rule = std::function<Reply(const Request&)>;

  // Serves `files` as /0, /1 ...
  RangeServer(std::vector<std::vector<std::uint8_t>> files, Rule rule)
      : files_(std::move(files)), rule_(std::move(rule)), listening_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listening_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listening_, 128) != 0 ||
        getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no server on loopback");
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
  }
  RangeServer(const RangeServer&) = delete;
  ~RangeServer() {
    ending_ = true;
    shutdown(listening_, SHUT_RDWR);
    accepting_.join();
    for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
    for (const int connection : connections_) close(connection);
    close(listening_);
  }

  std::string url(const std::string& path) const {
    return fmt::format("http://127.0.0.1:{}/{}", port_, path);
  }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void accept_all() {
    for (int connection; (connection = accept(listening_, nullptr, nullptr)) >= 0;) {
      const int yes = 1;  // the head is not to wait for the body
      setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      connections_.push_back(connection);
      threads_.emplace_back([this, connection] { serve(connection); });
    }
  }

  void serve(int connection) {
    std::string seen;
    char buffer[4096];
    for (;;) {
      std::size_t end = 0;
      while ((end = seen.find("\r\n\r\n")) == seen.npos) {
        const ssize_t n = recv(connection, buffer, sizeof buffer, 0);
        if (n <= 0) return;
        seen.append(buffer, static_cast<std::size_t>(n));
      }
      if (!answer(connection, seen.substr(0, end))) break;
      seen.erase(0, end + 4);
    }
    shutdown(connection, SHUT_RDWR);
  }

  // False: the connection is closed.
  bool answer(int connection, const std::string& head) {
    Request request;
    request.path = head.substr(5, head.find(' ', 5) - 5);
    const std::size_t range = head.find("Range: bytes=");
    request.begin = std::stoull(head.substr(range + 13));
    request.end = std::stoull(head.substr(head.find('-', range) + 1)) + 1;
    {
      const std::lock_guard lock(mutex_);
      request.number = requests_.size();
      requests_.push_back(request);
    }
    const Reply reply = rule_(request);
    if (reply.status != 200 && reply.status != 206)
      return send_all(connection, fmt::format("HTTP/1.1 {} No\r\n{}Content-Length: 0\r\n\r\n", reply.status,
                                              reply.header));
    const std::vector<std::uint8_t>& file = files_.at(std::stoul(request.path));
    if (reply.status == 200) request.begin = 0, request.end = file.size();
    const std::string content_range =
        reply.status == 206
            ? fmt::format("Content-Range: bytes {}-{}/{}\r\n", request.begin, request.end - 1, file.size())
            : "";
    const std::string body(file.begin() + static_cast<std::ptrdiff_t>(request.begin),
                           file.begin() + static_cast<std::ptrdiff_t>(request.end));
    if (!send_all(connection, fmt::format("HTTP/1.1 {} Yes\r\n{}{}Content-Length: {}\r\n\r\n", reply.status,
                                          reply.header, content_range, body.size())) ||
        !send_all(connection, body.substr(0, reply.most)))
      return false;
    if (reply.stalls)
      while (!ending_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return body.size() <= reply.most;
  }

  static bool send_all(int connection, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  const std::vector<std::vector<std::uint8_t>> files_;
  const Rule rule_;
  const int listening_;
  int port_ = 0;
  std::atomic<bool> ending_{false};
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::vector<int> connections_;  // of the accepting thread, then of the destructor
  std::vector<std::thread> threads_;
  std::thread accepting_;
};
