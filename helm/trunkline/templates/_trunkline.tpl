{{- define "trunkline.labels" -}}
app.kubernetes.io/name: trunkline
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "trunkline.config" -}}
{{- .Values.config | default (.Files.Get "files/trunkline.yaml") -}}
{{- end }}

{{/* Readiness fails this long before the listener closes, so that nobody is sent here any more: 5 s, or less of a short grace. */}}
{{- define "trunkline.drainDelay" -}}
{{- min 5 (div (int .Values.terminationGracePeriodSeconds) 5) -}}s
{{- end }}

{{/* What is left of the grace after that, less 5 s for the end itself; 1.5 s at least. */}}
{{- define "trunkline.drainTimeout" -}}
{{- $grace := int .Values.terminationGracePeriodSeconds -}}
{{- $left := sub (sub $grace 5) (min 5 (div $grace 5)) -}}
{{- if ge $left 2 -}}{{ $left }}s{{- else -}}1500ms{{- end -}}
{{- end }}

{{/* The container, but for its name and what is mounted. The directory is, not the file: only then do edits arrive. */}}
{{- define "trunkline.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
ports:
  - {name: mcp, containerPort: 8931}
  - {name: admin, containerPort: 8932}
startupProbe:
  httpGet: {path: /startz, port: admin}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: admin}
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
resources:
  {{- toYaml .Values.resources | nindent 2 }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  runAsUser: 65532
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* For the initContainers of somebody's own pod: `include "trunkline.sidecar.container" $`. */}}
{{- define "trunkline.sidecar.container" -}}
name: trunkline
restartPolicy: Always
env:
  - {name: TRUNKLINE_CONFIG, value: /etc/trunkline/config/sidecar.yaml}
  - {name: TRUNKLINE_LOG_FORMAT, value: json}
volumeMounts:
  - {name: trunkline-config, mountPath: /etc/trunkline/config, readOnly: true}
{{ include "trunkline.container" . }}
{{- end }}

{{/* Its volumes: `include "trunkline.sidecar.volumes" $`. */}}
{{- define "trunkline.sidecar.volumes" -}}
- name: trunkline-config
  configMap: {name: {{ .Release.Name }}-trunkline}
{{- end }}
