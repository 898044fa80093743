{{- define "upesi.labels" -}}
app.kubernetes.io/name: upesi
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The addresses of the nodes for each other. */}}
{{- define "upesi.nodes" -}}
{{- $domain := printf "%s-nodes.%s.svc" .Release.Name .Release.Namespace }}
{{- range $node := until (int .Values.nodes) }}
{{- if $node }}, {{ end }}{{ $node }}={{ $.Release.Name }}-{{ $node }}.{{ $domain }}:4003
{{- end }}
{{- end }}

{{- /* The host names of the admin port: of its services, and of each node. */}}
{{- define "upesi.hosts" -}}
{{- $domain := printf "%s.svc" .Release.Namespace }}
{{- $names := list (printf "%s-admin" .Release.Name) }}
{{- range $node := until (int .Values.nodes) }}
{{- $names = append $names (printf "%s-%d.%s-nodes" $.Release.Name $node $.Release.Name) }}
{{- end }}
{{- $hosts := .Values.admin.hosts }}
{{- range $names }}
{{- $hosts = concat $hosts (list . (printf "%s.%s" . $domain)) }}
{{- end }}
{{- join ", " $hosts }}
{{- end }}

{{- /* The files for brokers, with the names in the settings; empty if there are none. */}}
{{- define "upesi.brokers" -}}
{{- with .Values.brokers.tls }}
{{- if ne .mode "plain" }}
- secret:
    name: {{ required "brokers.tls.mode needs brokers.tls.anchors.secret" .anchors.secret }}
    items: [{ key: {{ .anchors.key }}, path: ca.crt }]
{{- end }}
{{- if eq .mode "mutual" }}
- secret:
    name: {{ required "brokers.tls.mode: mutual needs brokers.tls.certificate.secret" .certificate.secret }}
    items:
      - { key: {{ .certificate.certificateKey }}, path: tls.crt }
      - { key: {{ .certificate.keyKey }}, path: tls.key }
{{- end }}
{{- end }}
{{- if and (eq .Values.brokers.login.mechanism "PLAIN") (eq .Values.brokers.tls.mode "plain") }}
{{- fail "brokers.login.mechanism: PLAIN needs brokers.tls.mode tls or mutual" }}
{{- end }}
{{- with .Values.brokers.login }}
{{- if ne .mechanism "none" }}
- secret:
    name: {{ required "brokers.login.mechanism needs brokers.login.password.secret" .password.secret }}
    items: [{ key: {{ .password.key }}, path: password }]
{{- end }}
{{- end }}
{{- end }}

{{- define "upesi.container" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - name: POD_NAME
    valueFrom:
      fieldRef: { fieldPath: metadata.name }
  - name: UPESI__CLUSTER__NODE
    valueFrom:
      fieldRef: { fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']" }
  - name: UPESI__CLUSTER__RANK
    valueFrom:
      fieldRef: { fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']" }
  - name: UPESI__CLUSTER__ADDRESS
    {{- $scheme := eq .Values.fspiop.readiness "http" | ternary "http" "https" }}
    value: {{ $scheme }}://$(POD_NAME).{{ .Release.Name }}-nodes.{{ .Release.Namespace }}.svc:4000
  # Clients of the admin port must authenticate.
  - name: UPESI__ADMIN__LISTEN
    value: 0.0.0.0:4001
  - name: UPESI__ADMIN__AUTHENTICATION
    value: required
  - name: UPESI__ADMIN__ALLOWED_HOSTS
    value: {{ include "upesi.hosts" . | quote }}
  - name: UPESI__OUTBOUND__ADDRESSES
    value: {{ .Values.outbound.addresses }}
  {{- range .Values.secretSettings }}
  - name: {{ .name }}
    valueFrom:
      secretKeyRef: { name: {{ .secret }}, key: {{ .key }} }
  {{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - { name: data, mountPath: /var/lib/upesi }
  - { name: settings, mountPath: /etc/upesi, readOnly: true }
  - { name: nodes, mountPath: /etc/upesi-nodes, readOnly: true }
  {{- if include "upesi.brokers" . | trim }}
  - { name: brokers, mountPath: /etc/upesi-brokers, readOnly: true }
  {{- end }}
  {{- range .Values.secretFiles }}
  - { name: secret-{{ . }}, mountPath: /etc/upesi-secrets/{{ . }}, readOnly: true }
  {{- end }}
{{- end }}
