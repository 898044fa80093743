package main

import (
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A file that is named in the hub's settings.
var namedFile = regexp.MustCompile(`(?m)^ *([a-z_]+_file) = "(/[^"]+)"`)

// Checks references by name that Kubernetes does not check. A wrong one would only show in a cluster.
func names(input io.Reader) error {
	var pod core.PodSpec
	var settings string
	var ports []intstr.IntOrString
	err := kubernetes(input, func(object runtime.Object, _ *schema.GroupVersionKind) {
		switch found := object.(type) {
		case *apps.StatefulSet:
			pod = found.Spec.Template.Spec
		case *core.ConfigMap:
			settings = found.Data["upesi.toml"]
		case *core.Service:
			for _, port := range found.Spec.Ports {
				ports = append(ports, port.TargetPort)
			}
		case *network.NetworkPolicy:
			for _, rule := range found.Spec.Ingress {
				for _, port := range rule.Ports {
					ports = append(ports, *port.Port)
				}
			}
		}
	})
	if err != nil {
		return err
	}
	var mistakes []error
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, file := range namedFile.FindAllStringSubmatch(settings, -1) {
			if !isMounted(file[2], container, pod.Volumes) {
				mistakes = append(mistakes, fmt.Errorf("%s: %s is in no volume of %s", file[1], file[2], container.Name))
			}
		}
	}
	for _, container := range pod.Containers {
		for _, probe := range []*core.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			if probe.HTTPGet != nil {
				ports = append(ports, probe.HTTPGet.Port)
			} else {
				ports = append(ports, probe.TCPSocket.Port)
			}
		}
		for _, port := range ports {
			isIt := func(known core.ContainerPort) bool { return known.Name == port.StrVal }
			if !slices.ContainsFunc(container.Ports, isIt) {
				mistakes = append(mistakes, fmt.Errorf("%s has no port %s", container.Name, port.String()))
			}
		}
	}
	return errors.Join(mistakes...)
}

// Whether a file is in a volume of a container. A Secret without listed keys may contain any file.
func isMounted(file string, container core.Container, volumes []core.Volume) bool {
	for _, mount := range container.VolumeMounts {
		if mount.MountPath != path.Dir(file) {
			continue
		}
		for _, volume := range volumes {
			if volume.Name != mount.Name {
				continue
			}
			if volume.Secret != nil {
				return true
			}
			if volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				isIt := func(item core.KeyToPath) bool { return item.Path == path.Base(file) }
				if source.Secret != nil && slices.ContainsFunc(source.Secret.Items, isIt) {
					return true
				}
			}
		}
	}
	return false
}
