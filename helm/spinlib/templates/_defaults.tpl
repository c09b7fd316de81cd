{{/*
What the named templates assume where values are silent. The chart spin documents each in its values.yaml.
*/}}
{{- define "spinlib.version" -}}0.1.0{{- end }}

{{- define "spinlib.defaults" -}}
image: {repository: spin, tag: "", digest: "", pullPolicy: IfNotPresent}
nativeSidecar: auto
gpu:
  mode: none
  dra: {claimName: gpu, claimTemplateName: "", request: ""}
  visibleDevices: {value: all, runtimeClassName: nvidia}
mps: {enabled: false}
slab: {size: 256Mi}
policy:
  enabled: true
  sparsity: ""
  budgetMode: ""
  targetMiss: ""
  minSparsity: ""
  maxSparsity: ""
  configMap: ""
  exploration: ""
  decay: ""
  auditEvery: ""
  seed: ""
  pinFirstBlock: ""
  stateDtype: ""
allowUids: []
admin: {host: 0.0.0.0, port: 9464}
log: {level: info, format: json}
extraArgs: []
extraEnv: []
resources: {requests: {cpu: 100m}, limits: {}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
startupProbe: {periodSeconds: 1, timeoutSeconds: 2, failureThreshold: 120}
livenessProbe: {periodSeconds: 10, timeoutSeconds: 3, failureThreshold: 3}
{{- end }}

{{/* Defaults under the caller's values, as YAML. */}}
{{- define "spinlib.values" -}}
{{- mergeOverwrite (include "spinlib.defaults" . | fromYaml) (deepCopy (default dict .values)) | toYaml }}
{{- end }}
