// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/spind.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "dataplane/shared_memory.h"
#include "kernels/cuda_device.h"
#include "server/codec.h"
#include "server/process_metrics.h"
#include "server/start_failure.h"
#include "server/status_page.h"
#include "server/validate.h"
#include "server/version.h"

namespace spin::server {
namespace {

constexpr std::chrono::seconds kShutdownGrace(2);
// Audits come a few times a second at most; a jump of the misses should not wait much longer.
constexpr absl::Duration kReviewInterval = absl::Milliseconds(100);
constexpr absl::Duration kStuck = absl::Seconds(10);  // longer than any work takes

// cpu, cuda or cuda:UUID.
absl::StatusOr<std::unique_ptr<kernels::Device>> MakeDevice(const std::string& name) {
  if (name == "cpu") return kernels::MakeCpuDevice();
  absl::string_view uuid = name;
  if (!absl::ConsumePrefix(&uuid, "cuda") || (!uuid.empty() && !absl::ConsumePrefix(&uuid, ":"))) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: ", name, " is not a device; use cpu, cuda or cuda:UUID"));
  }
  auto device = kernels::MakeCudaDevice(uuid);
  if (device.ok()) return device;
  return absl::Status(device.status().code(),
                      absl::StrCat("--device ", name, ": ", device.status().message()));
}

// bf16 halves what a GPU has to move; on the CPU fp32 is the reference.
kernels::Dtype DefaultState(const Config& config) {
  return config.state_dtype.value_or(config.device == "cpu" ? kernels::Dtype::kF32
                                                            : kernels::Dtype::kBF16);
}

std::unique_ptr<grpc::Server> BuildServer(SpinService* service) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  // Clients may ping an idle stream as often as they like: the socket is local.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 100);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  return builder.BuildAndStart();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Spind>> Spind::Start(const Config& config,
                                                    std::shared_ptr<AdminHttp> admin) {
  auto lock = SocketLock::Take(config.socket);
  if (!lock.ok()) return FailedStart(StartPart::kSocket, lock.status());
  auto device = MakeDevice(config.device);
  if (!device.ok()) return FailedStart(StartPart::kDevice, device.status());
  auto slab = Slab::Create(device->get(), config.shm_dir, config.slab_bytes);
  if (!slab.ok()) return FailedStart(StartPart::kSlab, slab.status());
  auto executor = StepExecutor::Create(device->get(), config.wait_limit);
  if (!executor.ok()) return FailedStart(StartPart::kDevice, executor.status());
  std::unique_ptr<Spind> spind(new Spind(config, *std::move(lock), *std::move(device),
                                         *std::move(slab), *std::move(executor), std::move(admin)));
  const absl::Status serving = spind->Serve(config);
  if (!serving.ok()) return serving;
  return spind;
}

Spind::Spind(const Config& config, SocketLock lock, std::unique_ptr<kernels::Device> device,
             std::unique_ptr<Slab> slab, std::unique_ptr<StepExecutor> executor,
             std::shared_ptr<AdminHttp> admin)
    : started_at_(absl::Now()),
      lock_(std::move(lock)),
      device_(std::move(device)),
      slab_(std::move(slab)),
      registry_(std::make_shared<prometheus::Registry>()),
      rpc_metrics_(*registry_),
      quarantine_(config.quarantine),
      sessions_(&quarantine_),
      executor_(std::move(executor)),
      step_queue_("steps", config.step_queue),
      control_queue_("control", config.control_queue),
      admin_(std::move(admin)) {}

absl::Status Spind::Serve(const Config& config) {
  auto peers = PeerWatcher::Create(
      {.on_hangup = [this](uint64_t connection) { sessions_.EndUnattached(connection); },
       .on_exit = [this](pid_t pid) { sessions_.EndProcess(pid); }});
  if (!peers.ok()) return FailedStart(StartPart::kSocket, peers.status());
  peers_ = *std::move(peers);

  if (admin_ == nullptr) {
    auto admin = AdminHttp::Start(config.admin_address);
    if (!admin.ok()) return FailedStart(StartPart::kConfig, admin.status());
    admin_ = *std::move(admin);
  }

  service_ = std::make_unique<SpinService>(ServiceParts{.slab = slab_.get(),
                                                        .device = device_.get(),
                                                        .sessions = &sessions_,
                                                        .peers = peers_.get(),
                                                        .executor = executor_.get(),
                                                        .step_queue = &step_queue_,
                                                        .control_queue = &control_queue_,
                                                        .rpc_metrics = &rpc_metrics_,
                                                        .default_state = DefaultState(config),
                                                        .server_info = [this] { return Info(); }},
                                           config.policy);
  server_ = BuildServer(service_.get());
  if (server_ == nullptr) {
    return FailedStart(StartPart::kSocket, absl::InternalError("gRPC did not start"));
  }

  auto listener = Listener::Start(config.socket, config.allow_uids, server_.get(), peers_.get());
  if (!listener.ok()) return FailedStart(StartPart::kSocket, listener.status());
  listener_ = *std::move(listener);
  budgets_ = std::make_unique<BudgetReviewer>(&sessions_, kReviewInterval);
  serving_.store(true);
  admin_->Show(Pages());
  spdlog::info(
      "spind {} serves {} (epoch {:016x}): device {}, slab {} bytes, metrics at http://{}/metrics",
      kVersion, config.socket, slab_->epoch(), std::string(device_->uuid()), slab_->bytes(),
      admin_->address());
  if (config.device == "cpu" && !dataplane::IsInMemory(config.shm_dir)) {
    spdlog::warn(
        "--shm-dir: {} is no memory file system (tmpfs): pages of the slab may be written "
        "to disk, and steps may wait for it",
        config.shm_dir);
  }
  return absl::OkStatus();
}

AdminHttp::Pages Spind::Pages() {
  return {.metrics = {registry_,
                      std::make_shared<SessionMetrics>(&sessions_, [this] { return Gauges(); }),
                      std::make_shared<StartMetrics>(absl::OkStatus()),
                      std::make_shared<ProcessMetrics>()},
          .live = [this] { return Live(); },
          .started = [this] { return serving_.load(); },
          .status_json = [this] { return Status(); }};
}

Spind::~Spind() {
  const bool serving = serving_.exchange(false);
  budgets_.reset();
  listener_.reset();
  if (service_ != nullptr) service_->Drain();
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  step_queue_.Stop();
  control_queue_.Stop();
  if (serving) admin_->Hide();  // its pages read the parts below
  admin_.reset();
  server_.reset();
  peers_.reset();  // its callbacks end sessions
}

bool Spind::Live() const {
  return !step_queue_.StuckFor(kStuck) && !control_queue_.StuckFor(kStuck);
}

std::string Spind::Status() const {
  v1::ListSessionsResponse sessions;
  v1::WatchStatsResponse stats;
  for (const auto& session : sessions_.All()) {
    *sessions.add_sessions() = session->Info();
    *stats.add_sessions() = session->Stats();
  }
  *stats.mutable_taken_at() = ToProto(absl::Now());
  *stats.mutable_server() = Info();
  return StatusJson(Live(), sessions, stats);
}

v1::ServerInfo Spind::Info() const {
  v1::ServerInfo info;
  info.set_version(kVersion);
  info.set_epoch(slab_->epoch());
  info.set_device_uuid(std::string(device_->uuid()));
  info.set_slab_bytes(slab_->bytes());
  info.set_slab_used_bytes(slab_->extents().used());
  *info.mutable_started_at() = ToProto(started_at_);
  info.set_admin_address(admin_->address());
  info.set_process_id(getpid());
  return info;
}

ServerGauges Spind::Gauges() const {
  return {.slab_bytes = slab_->bytes(),
          .used_bytes = slab_->extents().used(),
          .quarantined_bytes = quarantine_.bytes(),
          .connections = peers_->connections(),
          .rejected_connections = peers_->rejected(),
          .step_queue_depth = step_queue_.depth(),
          .control_queue_depth = control_queue_.depth()};
}

}  // namespace spin::server
