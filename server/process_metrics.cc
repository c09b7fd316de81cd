// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/process_metrics.h"

#include <prometheus/client_metric.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/version.h"

namespace spin::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Single(const char* name, const char* help, MetricType type, double value) {
  ClientMetric metric;
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  family.metric.push_back(std::move(metric));
  return family;
}

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double OpenDescriptors() {
  std::error_code error;
  double count = 0;
  for (auto it = std::filesystem::directory_iterator("/proc/self/fd", error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    ++count;
  }
  return count;
}

// Boot time plus the 22nd field of /proc/self/stat, in seconds since the epoch.
double StartTime() {
  double boot = 0;
  std::ifstream stat("/proc/stat");
  for (std::string word; stat >> word;) {
    if (word == "btime") {
      stat >> boot;
      break;
    }
  }
  std::ifstream self("/proc/self/stat");
  std::string line;
  std::getline(self, line);
  line.erase(0, line.rfind(')') + 2);  // the name before may hold anything
  std::istringstream fields(line);
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  fields >> ticks;
  return boot + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

MetricFamily BuildInfo() {
  MetricFamily family =
      Single("spin_build_info", "1, labelled with the version of spind", MetricType::Gauge, 1);
  family.metric[0].label = {{"version", kVersion}};
  return family;
}

}  // namespace

std::vector<MetricFamily> ProcessMetrics::Collect() const {
  return {
      BuildInfo(),
      Single("process_cpu_seconds_total", "CPU time used", MetricType::Counter, CpuSeconds()),
      Single("process_resident_memory_bytes", "Resident memory, the slab's touched part included",
             MetricType::Gauge, ResidentBytes()),
      Single("process_open_fds", "Open descriptors", MetricType::Gauge, OpenDescriptors()),
      Single("process_start_time_seconds", "Start of the process, seconds since the epoch",
             MetricType::Gauge, StartTime()),
  };
}

}  // namespace spin::server
