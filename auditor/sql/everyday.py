"""PostgreSQL's own functions that tell the audit nothing: they compute, and touch neither rows, locks nor settings."""

from __future__ import annotations

from auditor.sql.tokens import word_set

#: Conditionals, aggregates, windows.
_CONDITIONALS = word_set(
    """
    coalesce nullif greatest least row array exists any all some distinct grouping count sum avg min max array_agg
    string_agg json_agg jsonb_agg json_object_agg jsonb_object_agg bool_and bool_or every bit_and bit_or bit_xor stddev
    stddev_pop stddev_samp variance var_pop var_samp corr covar_pop covar_samp percentile_cont percentile_disc mode
    any_value xmlagg range_agg row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value
    nth_value
    """
)
#: Text.
_TEXT = word_set(
    """
    lower upper initcap length char_length character_length octet_length bit_length trim btrim ltrim rtrim lpad rpad
    left right substr substring position strpos replace translate concat concat_ws format repeat reverse split_part
    string_to_array array_to_string string_to_table regexp_replace regexp_match regexp_matches regexp_split_to_array
    regexp_split_to_table regexp_like regexp_count regexp_instr regexp_substr starts_with ascii chr quote_ident
    quote_literal quote_nullable md5 sha224 sha256 sha384 sha512 encode decode convert convert_from convert_to overlay
    normalize to_hex unistr similarity word_similarity to_tsvector to_tsquery plainto_tsquery websearch_to_tsquery
    phraseto_tsquery ts_rank ts_rank_cd ts_headline setweight
    """
)
#: Numbers.
_NUMBERS = word_set(
    """
    abs ceil ceiling floor round trunc mod div power sqrt cbrt exp ln log log10 sign random setseed width_bucket degrees
    radians sin cos tan asin acos atan atan2 pi gcd lcm factorial random_normal
    """
)
#: Time.
_TIME = word_set(
    """
    now clock_timestamp statement_timestamp transaction_timestamp timeofday current_timestamp current_date current_time
    localtimestamp localtime age date date_part date_trunc date_bin extract make_date make_time make_timestamp
    make_timestamptz make_interval justify_days justify_hours justify_interval isfinite to_timestamp to_date to_char
    to_number timezone timestamp time interval
    """
)
#: Json, arrays, ranges, rows.
_JSON = word_set(
    """
    to_json to_jsonb row_to_json array_to_json json_build_array jsonb_build_array json_build_object jsonb_build_object
    json_object jsonb_object json_array_length jsonb_array_length json_each jsonb_each json_each_text jsonb_each_text
    json_extract_path jsonb_extract_path json_extract_path_text jsonb_extract_path_text json_object_keys
    jsonb_object_keys json_populate_record jsonb_populate_record json_populate_recordset jsonb_populate_recordset
    json_array_elements jsonb_array_elements json_array_elements_text jsonb_array_elements_text json_typeof jsonb_typeof
    json_to_record jsonb_to_record json_to_recordset jsonb_to_recordset json_strip_nulls jsonb_strip_nulls jsonb_set
    jsonb_set_lax jsonb_insert jsonb_pretty jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array
    jsonb_path_query_first json_value json_query json_exists json_table array_append array_cat array_dims array_fill
    array_length array_lower array_ndims array_position array_positions array_prepend array_remove array_replace
    array_upper array_sample array_shuffle cardinality trim_array unnest generate_series generate_subscripts int4range
    int8range numrange tsrange tstzrange daterange isempty lower_inc upper_inc lower_inf upper_inf range_merge
    multirange json_scalar json_serialize json_array json_arrayagg json_objectagg nested merge_action
    """
)
#: Casts written as calls, identifiers, the catalogue.
_CASTS_WRITTEN_AS_CALLS = word_set(
    """
    cast text int int2 int4 int8 integer bigint smallint numeric float4 float8 bool boolean uuid varchar char bpchar
    bytea gen_random_uuid uuid_generate_v1 uuid_generate_v4 uuidv4 uuidv7 uuid_extract_timestamp uuid_extract_version
    version current_user session_user current_role user current_database current_catalog current_schema current_schemas
    pg_typeof col_description obj_description format_type pg_get_expr pg_get_viewdef pg_get_functiondef
    pg_get_constraintdef pg_get_indexdef pg_get_userbyid pg_get_serial_sequence pg_table_is_visible pg_relation_size
    pg_total_relation_size pg_table_size pg_indexes_size pg_size_pretty pg_database_size to_regclass to_regproc
    to_regprocedure to_regtype to_regrole to_regnamespace has_table_privilege has_schema_privilege has_column_privilege
    has_database_privilege has_function_privilege pg_has_role pg_backend_pid pg_encoding_to_char inet_server_addr
    inet_server_port inet_client_addr txid_current pg_current_xact_id nextval currval lastval setval xmlelement xmltable
    xmlparse xmlconcat xmlattributes xmlforest xmlpi xmlroot xmlserialize xmlexists xmlnamespaces decimal dec bit json
    jsonb second hashtext hashtextextended
    """
)

EVERYDAY = _CONDITIONALS | _TEXT | _NUMBERS | _TIME | _JSON | _CASTS_WRITTEN_AS_CALLS
