// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/connection.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/socket_probe.h"
#include "spin/v1/error.pb.h"

namespace spin::cli {
namespace {

constexpr char kErrorDetailKey[] = "spin-error-bin";
constexpr int kMaxMessageBytes = 4 << 20;  // of the contract, on both sides

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  std::error_code error;
  const auto absolute = std::filesystem::absolute(socket, error);
  const std::string path = error ? socket : absolute.string();
  return grpc::CreateCustomChannel(absl::StrCat("unix:", path), grpc::InsecureChannelCredentials(),
                                   arguments);
}

std::optional<v1::ErrorDetail> DetailOf(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto entry = metadata.find(kErrorDetailKey);
  v1::ErrorDetail detail;
  if (entry == metadata.end()) return std::nullopt;
  if (!detail.ParseFromArray(entry->second.data(), static_cast<int>(entry->second.size()))) {
    return std::nullopt;
  }
  return detail;
}

// CANCELLED is kept for a user who interrupted us.
absl::StatusCode CodeOf(const grpc::Status& status) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  return code == absl::StatusCode::kCancelled ? absl::StatusCode::kAborted : code;
}

// The message, after the name of the field at fault unless it begins with that anyway.
std::string Sentence(const grpc::Status& status, const std::optional<v1::ErrorDetail>& detail) {
  if (!detail.has_value() || detail->message().empty()) {
    return status.error_message().empty() ? "spind gave no reason" : status.error_message();
  }
  const bool named =
      detail->field().empty() || absl::StartsWith(detail->message(), detail->field());
  return named ? detail->message() : absl::StrCat(detail->field(), ": ", detail->message());
}

}  // namespace

Connection::Connection(std::string socket)
    : socket_(std::move(socket)),
      channel_(OpenChannel(socket_)),
      stub_(v1::SpinService::NewStub(channel_)) {}

void Connection::SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
}

absl::Status Connection::Explain(const grpc::Status& status,
                                 const grpc::ClientContext& context) const {
  if (absl::Status path = CheckSocketPath(socket_); !path.ok()) return path;
  const std::optional<v1::ErrorDetail> detail = DetailOf(context);
  if (!detail.has_value() && status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return ExplainUnavailable(status);
  }
  if (!detail.has_value() && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnavailableError(absl::StrCat("spind at ", socket_, " did not answer within ",
                                               absl::FormatDuration(kCallTimeout)));
  }
  return absl::Status(CodeOf(status), Sentence(status, detail));
}

absl::Status Connection::ExplainUnavailable(const grpc::Status& status) const {
  if (absl::Status probed = ProbeSocket(socket_); !probed.ok()) {
    return absl::UnavailableError(probed.message());
  }
  if (ClosesAtOnce(socket_)) {
    return absl::UnavailableError(absl::StrCat("spind at ", socket_,
                                               " closed the connection: add user ", geteuid(),
                                               " to its --allow-uids"));
  }
  return absl::UnavailableError(
      absl::StrCat("spind at ", socket_, " is not available: ", status.error_message()));
}

}  // namespace spin::cli
