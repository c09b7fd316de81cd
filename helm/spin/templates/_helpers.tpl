{{- define "spin.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "spin.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "spin.labels" -}}
{{ include "spin.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The values of the library's templates. The reference deployment brings a claim template where none is named. */}}
{{- define "spin.sidecarValues" -}}
{{- $v := pick .Values "image" "nativeSidecar" "gpu" "mps" "slab" "policy" "allowUids" "admin" "log" "extraArgs" "extraEnv" "resources" "securityContext" "startupProbe" "livenessProbe" | deepCopy }}
{{- if not $v.gpu.dra.claimTemplateName }}
{{- $_ := set $v.gpu.dra "claimTemplateName" (include "spin.fullname" . | printf "%s-gpu") }}
{{- end }}
{{- $_ := unset $v.gpu.dra "deviceClassName" }}
{{- if $v.policy.file }}
{{- if $v.policy.configMap }}{{ fail "policy.file and policy.configMap are both given; a sidecar reads one policy file" }}{{ end }}
{{- $file := fromJson $v.policy.file }}
{{- if ne (toString (get $file "format")) "spin-policy" }}
{{- fail "policy.file is not a policy file: it must be JSON with \"format\": \"spin-policy\", as spinctl tune writes it; set it by --set-file" }}
{{- end }}
{{- include "spinlib.known" (dict "given" (omit $file "policy") "known" (dict "format" "" "version" "" "policy" "" "origin" "") "path" "policy.file: ") }}
{{- include "spinlib.known" (dict "given" (get $file "policy" | default dict) "known" (include "spin.policyFields" . | fromYaml) "path" "policy.file: policy.") }}
{{- $_ := set $v.policy "configMap" (include "spin.fullname" . | printf "%s-policy") }}
{{- end }}
{{- $_ := unset $v.policy "file" }}
{{- toYaml $v }}
{{- end }}

{{/* The fields of a policy file's policy (docs/policy-file.md). */}}
{{- define "spin.policyFields" -}}
{sparsity: "", layer_sparsity: "", exploration: "", decay: "", seed: "", audit_every: "", pin_first_block: "", enabled: "", budget_mode: "", target_miss: "", min_sparsity: "", max_sparsity: ""}
{{- end }}

{{/* "true" if `enabled` (true, false or auto) holds for an API: dict "root" $ "enabled" VALUE "api" "group/version/Kind" */}}
{{- define "spin.enabled" -}}
{{- if eq (toString .enabled) "auto" }}{{ .root.Capabilities.APIVersions.Has .api }}{{ else }}{{ .enabled }}{{ end }}
{{- end }}

{{/* A Kubernetes value as an expression of CEL. Strings that begin with CEL: are expressions already. */}}
{{- define "spin.cel" -}}
{{- if kindIs "map" . -}}
{ {{- range $i, $key := keys . | sortAlpha }}{{ if $i }}, {{ end }}{{ $key | quote }}: dyn({{ include "spin.cel" (index $ $key) }}){{ end -}} }
{{- else if kindIs "slice" . -}}
[{{ range $i, $item := . }}{{ if $i }}, {{ end }}dyn({{ include "spin.cel" $item }}){{ end }}]
{{- else if kindIs "string" . -}}
{{- if hasPrefix "CEL:" . }}{{ trimPrefix "CEL:" . }}{{ else }}{{ toJson . }}{{ end }}
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end }}
