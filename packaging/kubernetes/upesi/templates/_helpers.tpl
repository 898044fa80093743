{{- define "upesi.labels" -}}
app.kubernetes.io/name: upesi
app.kubernetes.io/instance: {{ .Release.Name }}
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
    value: http://$(POD_NAME).{{ .Release.Name }}-nodes.{{ .Release.Namespace }}.svc:4000
  # Whoever reaches the admin port must say who they are.
  - name: UPESI__ADMIN__LISTEN
    value: 0.0.0.0:4001
  - name: UPESI__ADMIN__AUTHENTICATION
    value: required
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
  {{- range .Values.secretFiles }}
  - { name: secret-{{ . }}, mountPath: /etc/upesi-secrets/{{ . }}, readOnly: true }
  {{- end }}
{{- end }}
