// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spin::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Unknown(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  return UnknownVariables({"SPIND_SPARSITY", "SPIND_SEED"}, environment.data());
}

TEST(UnknownVariablesTest, ASlipIsTold) {
  EXPECT_THAT(Unknown({"HOME=/", "SPIND_SPARSTY=0.2", "SPIND_SEED=1", "SPIND_COLOUR=red"}),
              ElementsAre("SPIND_SPARSTY in the environment is no setting of spind; spind --help "
                          "has their names",
                          HasSubstr("SPIND_COLOUR")));
}

TEST(UnknownVariablesTest, OthersAndKnownOnesAreNot) {
  EXPECT_THAT(Unknown({"SPIN_SOCKET=/s", "SPINDLE=1", "SPIND_SPARSITY=0.2", "spind_x=1", "X"}),
              IsEmpty());
}

TEST(UnknownVariablesTest, WhatKubernetesSetsForAServiceIsNot) {
  EXPECT_THAT(
      Unknown({"SPIND_SERVICE_HOST=10.0.0.1", "SPIND_SERVICE_PORT=9464",
               "SPIND_SERVICE_PORT_METRICS=9464", "SPIND_PORT=tcp://10.0.0.1:9464",
               "SPIND_PORT_9464_TCP=tcp://10.0.0.1:9464", "SPIND_PORT_9464_TCP_PROTO=tcp",
               "SPIND_PORT_9464_TCP_PORT=9464", "SPIND_PORT_53_UDP_ADDR=10.0.0.1",
               "SPIND_METRICS_SERVICE_HOST=10.0.0.2", "SPIND_METRICS_PORT_9464_TCP_ADDR=10.0.0.2"}),
      IsEmpty());
}

}  // namespace
}  // namespace spin::server
