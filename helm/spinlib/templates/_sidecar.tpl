{{/*
The sidecar container. All take: dict "root" $ "values" VALUES
*/}}
{{- define "spinlib.image" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
{{- $v.image.repository }}{{ if $v.image.digest }}@{{ $v.image.digest }}{{ else }}:{{ default (include "spinlib.version" .) $v.image.tag }}{{ end }}
{{- end }}

{{/* Settings of spind, as its environment: a value that is left out of a list of env is easier to see than a flag. */}}
{{- define "spinlib.env" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
- {name: SPIN_SOCKET, value: /run/spin/spind.sock}
- {name: SPIND_SOCKET, value: /run/spin/spind.sock}
{{- /* The engine starts after a native sidecar, so a spind that cannot serve must not end: it tells why, and the engine goes on without it. */}}
- {name: SPIND_STAY_UP, value: "true"}
- {name: SPIND_SHM_DIR, value: /run/spin}
- {name: SPIND_ADMIN_ADDRESS, value: {{ printf "%s:%d" $v.admin.host (int $v.admin.port) | quote }}}
- {name: SPIND_DEVICE, value: {{ ternary "cpu" "cuda" (eq $v.gpu.mode "none") }}}
- {name: SPIND_SLAB_BYTES, value: {{ $v.slab.size | quote }}}
{{- if $v.allowUids }}
- {name: SPIND_ALLOW_UIDS, value: {{ include "spinlib.uids" $v.allowUids | quote }}}
{{- end }}
{{- with include "spinlib.policyEnv" . }}
{{ . }}
{{- end }}
- {name: SPIND_LOG_LEVEL, value: {{ $v.log.level | quote }}}
- {name: SPIND_LOG_FORMAT, value: {{ $v.log.format | quote }}}
{{- if eq $v.gpu.mode "visibleDevices" }}
- {name: NVIDIA_VISIBLE_DEVICES, value: {{ $v.gpu.visibleDevices.value | quote }}}
- {name: NVIDIA_DRIVER_CAPABILITIES, value: "compute,utility"}
{{- end }}
{{- if $v.mps.enabled }}
- {name: CUDA_MPS_PIPE_DIRECTORY, value: /run/spin-mps}
{{- end }}
{{- with $v.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
The policy that is given, and nothing else: the environment wins over a policy file, so a default named here would silently undo the file.
*/}}
{{- define "spinlib.policyEnv" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
{{- $env := list }}
{{- if $v.policy.configMap }}{{ $env = append $env (dict "name" "SPIND_POLICY" "value" "/etc/spin/policy.json") }}{{ end }}
{{- if not $v.policy.enabled }}{{ $env = append $env (dict "name" "SPIND_ENABLED" "value" "false") }}{{ end }}
{{- range $key, $name := dict "sparsity" "SPARSITY" "budgetMode" "BUDGET_MODE" "targetMiss" "TARGET_MISS" "minSparsity" "MIN_SPARSITY" "maxSparsity" "MAX_SPARSITY"
      "exploration" "EXPLORATION" "decay" "DECAY" "auditEvery" "AUDIT_EVERY" "seed" "SEED" "pinFirstBlock" "PIN_FIRST_BLOCK" "stateDtype" "STATE_DTYPE" }}
{{- $value := include "spinlib.setting" (get $v.policy $key) }}
{{- if $value }}{{ $env = append $env (dict "name" (printf "SPIND_%s" $name) "value" $value) }}{{ end }}
{{- end }}
{{- with $env }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* A value as spind reads it; nothing if it is empty. YAML reads whole numbers as floats, which print as 9.007e+09. */}}
{{- define "spinlib.setting" -}}
{{- if kindIs "float64" . }}{{ if eq . (floor .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}{{ else if not (kindIs "invalid" .) }}{{ . }}{{ end }}
{{- end }}

{{/* YAML reads numbers as floats. */}}
{{- define "spinlib.uids" -}}
{{- $uids := list }}{{ range . }}{{ $uids = append $uids (toString (int64 .)) }}{{ end }}{{ join "," $uids }}
{{- end }}

{{/*
Memory follows the slab, so that the default never ends in an OOM kill: the CPU device's slab is memory of this container; a CUDA context takes
about 300 MiB of host memory.
*/}}
{{- define "spinlib.resources" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
{{- $memory := printf "%dMi" (ternary (add (include "spinlib.mebibytes" (toString $v.slab.size) | int) 128) 768 (eq $v.gpu.mode "none")) }}
{{- $limits := merge (deepCopy (default dict $v.resources.limits)) (dict "memory" $memory) }}
{{- $requests := merge (deepCopy (default dict $v.resources.requests)) (dict "memory" $limits.memory) }}
{{- $resources := merge (dict "limits" $limits "requests" $requests) $v.resources }}
{{- if eq $v.gpu.mode "dra" }}
{{- $_ := set $resources "claims" (include "spinlib.engineClaims" . | fromYamlArray) }}
{{- end }}
{{- toYaml $resources }}
{{- end }}

{{- define "spinlib.probe" -}}
httpGet: {path: {{ .path }}, port: spin-admin}
{{ toYaml .probe }}
{{- end }}

{{/* One container, as a map. There is no readiness probe: a sick sidecar must not take a working engine out of service. */}}
{{- define "spinlib.container" -}}
{{- include "spinlib.check" . }}
{{- $v := include "spinlib.values" . | fromYaml -}}
name: spin
image: {{ include "spinlib.image" . | quote }}
imagePullPolicy: {{ $v.image.pullPolicy }}
{{- if eq (include "spinlib.native" .) "true" }}
restartPolicy: Always
{{- end }}
{{- with $v.extraArgs }}
args: {{ toYaml . | nindent 2 }}
{{- end }}
env: {{ include "spinlib.env" . | nindent 2 }}
ports:
  - {name: spin-admin, containerPort: {{ $v.admin.port | int }}, protocol: TCP}
startupProbe: {{ include "spinlib.probe" (dict "path" "/startupz" "probe" $v.startupProbe) | nindent 2 }}
livenessProbe: {{ include "spinlib.probe" (dict "path" "/livez" "probe" $v.livenessProbe) | nindent 2 }}
resources: {{ include "spinlib.resources" . | nindent 2 }}
securityContext: {{ toYaml $v.securityContext | nindent 2 }}
volumeMounts:
  {{- include "spinlib.engineVolumeMounts" . | nindent 2 }}
  {{- if $v.policy.configMap }}
  - {name: spin-policy, mountPath: /etc/spin, readOnly: true}
  {{- end }}
{{- end }}

{{/* The MPS daemon: in the pod, over a volume of the pod, as the same user as its clients. */}}
{{- define "spinlib.mpsContainer" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
name: spin-mps
image: {{ include "spinlib.image" . | quote }}
imagePullPolicy: {{ $v.image.pullPolicy }}
{{- if eq (include "spinlib.native" .) "true" }}
restartPolicy: Always
{{- end }}
command: [nvidia-cuda-mps-control, -f]
env:
  - {name: CUDA_MPS_PIPE_DIRECTORY, value: /run/spin-mps}
  - {name: CUDA_MPS_LOG_DIRECTORY, value: /run/spin-mps}
{{- if eq $v.gpu.mode "visibleDevices" }}
  - {name: NVIDIA_VISIBLE_DEVICES, value: {{ $v.gpu.visibleDevices.value | quote }}}
  - {name: NVIDIA_DRIVER_CAPABILITIES, value: "compute,utility"}
{{- end }}
resources:
  requests: {cpu: 50m, memory: 128Mi}
  limits: {memory: 128Mi}
{{- if eq $v.gpu.mode "dra" }}
  claims: {{ include "spinlib.engineClaims" . | nindent 4 }}
{{- end }}
securityContext: {{ toYaml $v.securityContext | nindent 2 }}
volumeMounts:
  - {name: spin-mps, mountPath: /run/spin-mps}
{{- end }}

{{/* The sidecars as a list of containers. */}}
{{- define "spinlib.sidecars" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
{{- $all := list }}
{{- if $v.mps.enabled }}{{ $all = append $all (include "spinlib.mpsContainer" . | fromYaml) }}{{ end }}
{{- $all = append $all (include "spinlib.container" . | fromYaml) }}
{{- toYaml $all }}
{{- end }}

{{- define "spinlib.initContainers" -}}
{{- if eq (include "spinlib.native" .) "true" }}{{ include "spinlib.sidecars" . }}{{ end }}
{{- end }}

{{- define "spinlib.containers" -}}
{{- if ne (include "spinlib.native" .) "true" }}{{ include "spinlib.sidecars" . }}{{ end }}
{{- end }}
