// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/admin_http.h"

#include <civetweb.h>
#include <netinet/in.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/status_page.h"

namespace spin::server {
namespace {

// `more_headers` are whole lines.
int Reply(mg_connection* connection, int code, const char* type, absl::string_view body,
          const char* more_headers = "") {
  const char* reason = code == 200   ? "OK"
                       : code == 404 ? "Not Found"
                       : code == 405 ? "Method Not Allowed"
                                     : "Service Unavailable";
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s"
            "Connection: close\r\n\r\n",
            code, reason, type, body.size(), more_headers);
  const bool head = std::strcmp(mg_get_request_info(connection)->request_method, "HEAD") == 0;
  if (!head) mg_write(connection, body.data(), body.size());
  return code;
}

// Answers anything but GET and HEAD itself; 0 if the handler should go on.
int RefuseMethod(mg_connection* connection) {
  const std::string method = mg_get_request_info(connection)->request_method;
  if (method == "GET" || method == "HEAD") return 0;
  return Reply(connection, 405, "text/plain", "only GET is served here\n");
}

// civetweb takes other things, too, such as a port alone or several addresses, and does not say
// what is wrong with the rest.
bool IsHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return false;
  absl::string_view host = address.substr(0, colon);
  const absl::string_view port = address.substr(colon + 1);
  const bool bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  if (host.empty() || host.find_first_of(bracketed ? "[], " : "[]:, ") != host.npos) return false;
  uint16_t number = 0;
  return std::all_of(port.begin(), port.end(), absl::ascii_isdigit) &&
         std::from_chars(port.data(), port.data() + port.size(), number).ec == std::errc();
}

// Connects to a port of this host and hangs up.
void Knock(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  close(fd);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

int Probe(mg_connection* connection, bool ok) {
  if (const int code = RefuseMethod(connection)) return code;
  return Reply(connection, ok ? 200 : 503, "text/plain", ok ? "ok\n" : "not yet\n");
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdminHttp>> AdminHttp::Start(const std::string& address) {
  if (!IsHostPort(address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--admin-address: \"", address,
                     "\" is not HOST:PORT with a port of 0 to 65535, such as 127.0.0.1:9464"));
  }
  if (absl::StartsWith(address, "[") && mg_check_feature(MG_FEATURES_IPV6) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("--admin-address: ", address,
                     " is of IPv6, which this machine's civetweb library was built without (as "
                     "Debian's is); take an address of IPv4"));
  }
  std::unique_ptr<AdminHttp> http(new AdminHttp);
  // Threads and timeout bound how many connections that say nothing keep a probe waiting, and how
  // long.
  const char* options[] = {"listening_ports",
                           address.c_str(),
                           "num_threads",
                           "16",
                           "request_timeout_ms",
                           "1000",
                           "enable_keep_alive",
                           "no",
                           nullptr};
  mg_callbacks callbacks = {};
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };  // told below
  mg_init_data init = {};
  init.callbacks = &callbacks;
  init.user_data = http.get();
  init.configuration_options = options;
  char text[256] = "";
  mg_error_data error = {};
  error.text = text;
  error.text_buffer_size = sizeof text;
  errno = 0;
  http->context_ = mg_start2(&init, &error);
  if (http->context_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("--admin-address: cannot listen on ", address, " (",
                     errno != 0 ? std::strerror(errno) : text,
                     "); choose an address of this machine and a free port, or port 0 for any"));
  }
  mg_server_port port = {};
  mg_get_server_ports(http->context_, 1, &port);
  http->port_ = port.port;
  http->address_ = absl::StrCat(address.substr(0, address.rfind(':') + 1), port.port);
  mg_set_request_handler(http->context_, "/metrics$", OnMetrics, http.get());
  mg_set_request_handler(http->context_, "/livez$", OnLive, http.get());
  mg_set_request_handler(http->context_, "/startupz$", OnStarted, http.get());
  mg_set_request_handler(http->context_, "/status.json$", OnStatusJson, http.get());
  mg_set_request_handler(http->context_, "/", OnPageOrNothing, http.get());  // all other paths
  return http;
}

AdminHttp::AdminHttp() { mg_init_library(0); }

void AdminHttp::Show(Pages pages) {
  absl::MutexLock lock(&mutex_);
  pages_ = std::move(pages);
}

void AdminHttp::Hide() {
  absl::MutexLock lock(&mutex_);
  pages_.reset();
}

bool AdminHttp::Holds(std::function<bool()> Pages::*probe) const {
  absl::ReaderMutexLock lock(&mutex_);
  return pages_.has_value() && ((*pages_).*probe)();
}

AdminHttp::~AdminHttp() {
  if (context_ != nullptr) {
    // civetweb looks at its stop flag every two seconds, or when somebody knocks.
    std::atomic<bool> stopped = false;
    std::thread knocking([this, &stopped] {
      while (!stopped) Knock(port_);
    });
    mg_stop(context_);
    stopped = true;
    knocking.join();
  }
  mg_exit_library();
}

int AdminHttp::OnMetrics(mg_connection* connection, void* self) {
  if (const int code = RefuseMethod(connection)) return code;
  auto* http = static_cast<AdminHttp*>(self);
  std::vector<prometheus::MetricFamily> families;
  {
    absl::ReaderMutexLock lock(&http->mutex_);
    if (!http->pages_.has_value()) return Probe(connection, false);
    for (const auto& source : http->pages_->metrics) {
      std::vector<prometheus::MetricFamily> part = source->Collect();
      std::move(part.begin(), part.end(), std::back_inserter(families));
    }
  }
  return Reply(connection, 200, "text/plain; version=0.0.4; charset=utf-8",
               prometheus::TextSerializer().Serialize(families));
}

int AdminHttp::OnLive(mg_connection* connection, void* self) {
  return Probe(connection, static_cast<AdminHttp*>(self)->Holds(&Pages::live));
}

int AdminHttp::OnStarted(mg_connection* connection, void* self) {
  return Probe(connection, static_cast<AdminHttp*>(self)->Holds(&Pages::started));
}

int AdminHttp::OnStatusJson(mg_connection* connection, void* self) {
  if (const int code = RefuseMethod(connection)) return code;
  auto* http = static_cast<AdminHttp*>(self);
  std::string json;
  {
    absl::ReaderMutexLock lock(&http->mutex_);
    if (!http->pages_.has_value()) return Probe(connection, false);
    json = http->pages_->status_json();
  }
  return Reply(connection, 200, "application/json", json);
}

int AdminHttp::OnPageOrNothing(mg_connection* connection, void*) {
  if (absl::string_view(mg_get_request_info(connection)->local_uri) != "/") {
    return Reply(connection, 404, "text/plain", "try /, /metrics, /livez or /startupz\n");
  }
  if (const int code = RefuseMethod(connection)) return code;
  // The page loads nothing, and asks only where it came from.
  return Reply(connection, 200, "text/html; charset=utf-8", StatusPage(),
               "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
               "script-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
               "form-action 'none'; frame-ancestors 'none'\r\n");
}

}  // namespace spin::server
