// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// fakedra is a DRA driver with pretended GPUs: it lets a real scheduler and kubelet run pods whose containers share a ResourceClaim.
// It answers to the name of NVIDIA's driver, so that manifests need no change; each device only sets environment variables through CDI.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
)

const cdiKind = "k8s.gpu.nvidia.com/device"

type driver struct{ name string }

func uuid(device string) string { return "GPU-fake-" + device }

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range claims {
		var r kubeletplugin.PrepareResult
		for _, a := range c.Status.Allocation.Devices.Results {
			if a.Driver != d.name {
				continue
			}
			r.Devices = append(r.Devices, kubeletplugin.Device{
				Requests: []string{a.Request}, PoolName: a.Pool, DeviceName: a.Device, CDIDeviceIDs: []string{cdiKind + "=" + a.Device},
			})
		}
		out[c.UID] = r
		klog.Infof("prepared claim %s/%s: %v", c.Namespace, c.Name, r.Devices)
	}
	return out, nil
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	out := map[types.UID]error{}
	for _, c := range claims {
		out[c.UID] = nil
		klog.Infof("unprepared claim %s/%s", c.Namespace, c.Name)
	}
	return out, nil
}

func (d *driver) HandleError(_ context.Context, err error, msg string) { klog.ErrorS(err, msg) }

func writeCDI(dir string, n int) error {
	type edits struct {
		Env []string `json:"env"`
	}
	type dev struct {
		Name           string `json:"name"`
		ContainerEdits edits  `json:"containerEdits"`
	}
	spec := struct {
		CDIVersion     string `json:"cdiVersion"`
		Kind           string `json:"kind"`
		Devices        []dev  `json:"devices"`
		ContainerEdits edits  `json:"containerEdits"`
	}{"0.5.0", cdiKind, nil, edits{[]string{"NVIDIA_VISIBLE_DEVICES=void"}}}
	for i := range n {
		name := fmt.Sprintf("gpu-%d", i)
		spec.Devices = append(spec.Devices, dev{name, edits{[]string{"FAKE_GPU_UUID=" + uuid(name)}}})
	}
	b, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "k8s.gpu.nvidia.com.json"), b, 0o644)
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig")
	node := flag.String("node", "node1", "node name")
	root := flag.String("kubelet-root", "/var/lib/kubelet", "kubelet --root-dir")
	cdi := flag.String("cdi-dir", "/var/run/cdi", "where to write the CDI specification")
	n := flag.Int("gpus", 2, "how many devices to pretend")
	flag.Parse()
	d := &driver{name: "gpu.nvidia.com"}
	if err := run(d, *kubeconfig, *node, *root, *cdi, *n); err != nil {
		klog.Fatal(err)
	}
}

func run(d *driver, kubeconfig, node, root, cdi string, n int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	if err := writeCDI(cdi, n); err != nil {
		return err
	}
	data := filepath.Join(root, "plugins", d.name)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return err
	}
	h, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(d.name), kubeletplugin.NodeName(node), kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(root, "plugins_registry")), kubeletplugin.PluginDataDirectoryPath(data))
	if err != nil {
		return err
	}
	defer h.Stop()
	var devices []resourceapi.Device
	for i := range n {
		name := fmt.Sprintf("gpu-%d", i)
		id, kind := uuid(name), "gpu"
		devices = append(devices, resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"uuid": {StringValue: &id}, "type": {StringValue: &kind},
		}})
	}
	if err := h.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{{Devices: devices}}}}}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
