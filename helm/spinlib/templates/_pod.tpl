{{/*
What the pod around the sidecar needs. All take: dict "root" $ "values" VALUES
*/}}
{{- define "spinlib.podLabels" -}}
spin/sidecar: "true"
{{- end }}

{{/* CUDA IPC needs different process numbers in the two containers: one process namespace gives them. */}}
{{- define "spinlib.podSpec" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
shareProcessNamespace: true
{{- if eq $v.gpu.mode "dra" }}
resourceClaims:
  - name: {{ $v.gpu.dra.claimName }}
    resourceClaimTemplateName: {{ required "gpu.mode dra needs gpu.dra.claimTemplateName" $v.gpu.dra.claimTemplateName }}
{{- else if and (eq $v.gpu.mode "visibleDevices") $v.gpu.visibleDevices.runtimeClassName }}
runtimeClassName: {{ $v.gpu.visibleDevices.runtimeClassName }}
{{- end }}
{{- end }}

{{/* The group is what lets an engine of another user reach socket and slab. */}}
{{- define "spinlib.podSecurityContext" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
fsGroup: {{ $v.securityContext.runAsGroup | default 65532 | int }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "spinlib.volumes" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
{{- $slab := include "spinlib.mebibytes" (toString $v.slab.size) | int -}}
- name: spin-run
  emptyDir:
    medium: Memory
    sizeLimit: {{ ternary (add $slab 16) 16 (eq $v.gpu.mode "none") }}Mi
{{- if $v.mps.enabled }}
- name: spin-mps
  emptyDir: {medium: Memory, sizeLimit: 64Mi}
{{- end }}
{{- with $v.policy.configMap }}
- name: spin-policy
  configMap: {name: {{ . }}, optional: true}  # the engine would wait for a ConfigMap that is missing; spind says so
{{- end }}
{{- end }}

{{- define "spinlib.engineEnv" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
- {name: SPIN_SOCKET, value: /run/spin/spind.sock}
{{- if $v.mps.enabled }}
- {name: CUDA_MPS_PIPE_DIRECTORY, value: /run/spin-mps}
{{- end }}
{{- end }}

{{- define "spinlib.engineVolumeMounts" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
- {name: spin-run, mountPath: /run/spin}
{{- if $v.mps.enabled }}
- {name: spin-mps, mountPath: /run/spin-mps}
{{- end }}
{{- end }}

{{- define "spinlib.engineClaims" -}}
{{- $v := include "spinlib.values" . | fromYaml -}}
{{- if eq $v.gpu.mode "dra" }}
- name: {{ $v.gpu.dra.claimName }}
{{- with $v.gpu.dra.request }}
  request: {{ . }}
{{- end }}
{{- end }}
{{- end }}
