"""The fields of a KubeletConfiguration (v1beta1), as the kubelet's Go module names them.

What belongs here: the table alone. ``tests/cli/test_simulate_inputs.py`` compares it with
``k8s.io/kubelet/config/v1beta1/types.go`` of every release that Go has fetched.
"""

from __future__ import annotations

from typing import Final

_NAMES: Final = """
    address allowedUnsafeSysctls authentication authorization cgroupDriver cgroupRoot
    cgroupsPerQOS clientCertificateKeyAlgorithm clusterDNS clusterDomain
    configMapAndSecretChangeDetectionStrategy
    containerLogMaxFiles containerLogMaxSize containerLogMaxWorkers containerLogMonitorInterval
    containerRuntimeEndpoint contentType cpuCFSQuota cpuCFSQuotaPeriod cpuManagerPolicy
    cpuManagerPolicyOptions cpuManagerReconcilePeriod crashLoopBackOff defaultPodSysctls
    enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler
    enableDebuggingHandlers enableProfilingHandler enableServer enableSystemLogHandler
    enableSystemLogQuery enforceNodeAllocatable eventBurst eventRecordQPS evictionHard
    evictionMaxPodGracePeriod evictionMinimumReclaim evictionPressureTransitionPeriod
    evictionSoft evictionSoftGracePeriod failCgroupV1 failSwapOn featureGates fileCheckFrequency
    hairpinMode healthzBindAddress healthzPort httpCheckFrequency imageGCHighThresholdPercent
    imageGCLowThresholdPercent imageMaximumGCAge imageMinimumGCAge
    imagePullCredentialsVerificationPolicy imageServiceEndpoint iptablesDropBit
    iptablesMasqueradeBit kernelMemcgNotification kubeAPIBurst kubeAPIQPS kubeReserved
    kubeReservedCgroup kubeletCgroups localStorageCapacityIsolation logging
    makeIPTablesUtilChains maxOpenFiles maxParallelImagePulls maxPods memoryManagerPolicy
    memoryReservationPolicy memorySwap memoryThrottlingFactor mergeDefaultEvictionSettings
    nodeLeaseDurationSeconds nodeStatusMaxImages nodeStatusReportFrequency
    nodeStatusUpdateFrequency oomScoreAdj podCIDR podLogsDir podPidsLimit podsPerCore port
    preloadedImagesVerificationAllowlist protectKernelDefaults providerID qosReserved
    readOnlyPort registerNode registerWithTaints registryBurst registryPullQPS reservedMemory
    reservedSystemCPUs resolvConf rotateCertificates runOnce runtimeRequestTimeout
    seccompDefault serializeImagePulls serverCertificateKeyAlgorithm serverTLSBootstrap
    showHiddenMetricsForVersion
    shutdownGracePeriod shutdownGracePeriodByPodPriority shutdownGracePeriodCriticalPods
    singleProcessOOMKill staticPodPath staticPodURL staticPodURLHeader
    streamingConnectionIdleTimeout syncFrequency systemCgroups systemReserved
    systemReservedCgroup tlsCertFile tlsCipherSuites tlsCurvePreferences tlsMinVersion
    tlsPrivateKeyFile topologyManagerPolicy topologyManagerPolicyOptions topologyManagerScope
    tracing userNamespaces volumePluginDir volumeStatsAggPeriod
"""
#: Of 1.17 to 1.38 (1.38.0-beta.0); no release has taken one away.
FIELDS: Final = frozenset(_NAMES.split())
