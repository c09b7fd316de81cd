{{/*
Combinations that cannot work, each refused in one sentence. Renders nothing.
*/}}
{{- define "spinlib.check" -}}
{{- include "spinlib.known" (dict "given" (default dict .values) "known" (include "spinlib.defaults" . | fromYaml) "path" "") }}
{{- $v := include "spinlib.values" . | fromYaml -}}
{{- $kubernetes := .root.Capabilities.KubeVersion.Version }}
{{- if not (has $v.gpu.mode (list "none" "dra" "visibleDevices")) }}
{{- fail (printf "gpu.mode is %s; it must be none, dra or visibleDevices" $v.gpu.mode) }}
{{- end }}
{{- if and $v.mps.enabled (eq $v.gpu.mode "none") }}
{{- fail "mps.enabled needs gpu.mode dra or visibleDevices: the CPU device has nothing to share" }}
{{- end }}
{{- if and (eq $v.gpu.mode "dra") (semverCompare "<1.34.0-0" $kubernetes) }}
{{- fail (printf "gpu.mode dra needs Kubernetes 1.34, and this is %s; use visibleDevices" $kubernetes) }}
{{- end }}
{{- if and (eq (toString $v.nativeSidecar) "true") (semverCompare "<1.29.0-0" $kubernetes) }}
{{- fail (printf "nativeSidecar is true, but Kubernetes %s knows none (1.29 does); leave it at auto" $kubernetes) }}
{{- end }}
{{- $mode := $v.policy.budgetMode }}
{{- if and (include "spinlib.setting" $v.policy.targetMiss) (ne $mode "target_miss") (or $mode (not $v.policy.configMap)) }}
{{- fail (printf "policy.targetMiss is for policy.budgetMode target_miss, which is %s" ($mode | default "empty, and so fixed")) }}
{{- end }}
{{- if and (has $mode (list "calibrated" "target_miss")) (eq (include "spinlib.setting" $v.policy.auditEvery) "0") }}
{{- fail (printf "policy.auditEvery is 0, but policy.budgetMode %s learns from audits; leave it empty" $mode) }}
{{- end }}
{{- $min := $v.policy.minSparsity | default 0 | float64 }}
{{- $max := $v.policy.maxSparsity | default 0.95 | float64 }}
{{- if and $v.policy.minSparsity (not $v.policy.configMap) (gt $min $max) }}
{{- fail (printf "policy.minSparsity is %v, more than policy.maxSparsity, %v" $min $max) }}
{{- end }}
{{- if and $v.policy.sparsity (eq $mode "target_miss") (or $v.policy.maxSparsity (not $v.policy.configMap)) (gt (float64 $v.policy.sparsity) $max) }}
{{- fail (printf "policy.sparsity is %v, more than policy.maxSparsity, %v" $v.policy.sparsity $max) }}
{{- end }}
{{- if not (regexMatch "^[1-9][0-9]*(Mi|Gi)$" (toString $v.slab.size)) }}
{{- fail (printf "slab.size is %v; it must be a whole number of Mi or Gi, such as 2Gi" $v.slab.size) }}
{{- end }}
{{- $least := include "spinlib.mebibytes" (toString $v.slab.size) | int | add 64 }}
{{- $limit := include "spinlib.setting" (get (default dict $v.resources.limits) "memory") }}
{{- if and (eq $v.gpu.mode "none") (regexMatch "^[0-9]+(Ki|Mi|Gi|Ti|k|M|G|T)?$" $limit) }}
{{- $unit := get (dict "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "" 1.0) (regexFind "[A-Za-z]*$" $limit) }}
{{- if lt (mulf (regexFind "^[0-9]+" $limit | float64) $unit) (mulf $least 1048576.0) }}
{{- fail (printf "resources.limits.memory is %s, but slab.size %s is memory of this container: give it %dMi, or leave it empty" $limit $v.slab.size $least) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses keys that are no values, such as typos: dict "given" MAP "known" MAP "path" PREFIX. Maps of Kubernetes are its own affair. */}}
{{- define "spinlib.known" -}}
{{- range $key, $value := .given }}
{{- $path := printf "%s%s" $.path $key }}
{{- if not (hasKey $.known $key) }}
{{- fail (printf "%s is not a value of the sidecar; there are %s%s" $path $.path (keys $.known | sortAlpha | join (printf ", %s" $.path))) }}
{{- end }}
{{- $known := get $.known $key }}
{{- if and (kindIs "map" $value) (kindIs "map" $known) (not (has $path (list "resources" "securityContext" "startupProbe" "livenessProbe"))) }}
{{- include "spinlib.known" (dict "given" $value "known" $known "path" (printf "%s." $path)) }}
{{- end }}
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
