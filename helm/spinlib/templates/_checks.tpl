{{/*
Combinations that cannot work, each refused in one sentence. Renders nothing.
*/}}
{{- define "spinlib.check" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
{{- if not (has $v.gpu.mode (list "none" "dra" "visibleDevices")) }}
{{- fail (printf "gpu.mode is %s; it must be none, dra or visibleDevices" $v.gpu.mode) }}
{{- end }}
{{- if and $v.mps.enabled (eq $v.gpu.mode "none") }}
{{- fail "mps.enabled needs gpu.mode dra or visibleDevices: the CPU device has nothing to share" }}
{{- end }}
{{- $min := $v.policy.minSparsity | default 0 | float64 }}
{{- $max := $v.policy.maxSparsity | default 0.95 | float64 }}
{{- if and $v.policy.minSparsity (not $v.policy.configMap) (gt $min $max) }}
{{- fail (printf "policy.minSparsity is %v, more than policy.maxSparsity, %v" $min $max) }}
{{- end }}
{{- if not (regexMatch "^[1-9][0-9]*(Mi|Gi)$" (toString $v.slab.size)) }}
{{- fail (printf "slab.size is %v; it must be a whole number of Mi or Gi, such as 2Gi" $v.slab.size) }}
{{- end }}
{{- end }}

{{/* "true" if the sidecar is an init container that keeps running (Kubernetes 1.29 and later). */}}
{{- define "spinlib.native" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
{{- if eq (toString $v.nativeSidecar) "auto" }}
{{- semverCompare ">=1.29.0-0" .root.Capabilities.KubeVersion.Version }}
{{- else }}
{{- toString $v.nativeSidecar }}
{{- end }}
{{- end }}

{{/* A size such as 2Gi in whole MiB. */}}
{{- define "spinlib.mebibytes" -}}
{{- $number := regexFind "^[0-9]+" . | int }}
{{- if hasSuffix "Gi" . }}{{ mul 1024 $number }}{{ else }}{{ $number }}{{ end }}
{{- end }}
